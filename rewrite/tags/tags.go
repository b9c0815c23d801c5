// Package tags renders sources as tags and keeps everything else from looking
// like one.
//
// Whatever a tolerant reader (a model, a lenient parser) could take for a tag of
// our vocabulary is found by Scan and made harmless by Neutralise; AppendOpen and
// its like write the real ones. The package knows nothing of budgets, messages
// or policies.
package tags

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// vocabulary is the names of our tags, a longer one before its own beginning.
// The tags of typed chunks will join here.
var vocabulary = [...]string{"sources", "source", "component"}

// A Span is a piece of a text by byte offsets: text[Start:End].
type Span struct{ Start, End int }

// Scan returns what a tolerant reader could take for a tag of our vocabulary,
// each from its opening bracket to the end of its name: opening, closing or
// unfinished, in any case, with white space or invisible characters anywhere
// inside, with look-alike brackets, slashes and letters, written in character
// references, once or many times escaped.
func Scan(text string) []Span {
	var spans []Span
	for t := (tag{}); t.next(text); {
		spans = append(spans, Span{t.start, t.end})
	}
	return spans
}

// Count returns how many tags of our vocabulary a tolerant reader could see in
// text: the length of Scan without the list.
func Count(text string) int {
	n := 0
	for t := (tag{}); t.next(text); {
		n++
	}
	return n
}

// A tag is a look-alike at text[start:end], its bracket at text[start:open].
type tag struct{ start, open, end int }

// next moves t to the first look-alike whose bracket begins at t.open or later.
func (t *tag) next(text string) bool {
	for i := t.open; ; i++ {
		i += skip(text[i:], &brackets)
		if i == len(text) {
			return false
		}
		if text[i] == '<' && i+1 < len(text) && dull[text[i+1]] {
			continue
		}
		if found, ok := at(text, i); ok {
			*t = found
			return true
		}
	}
}

// dull marks the letters and digits with which no name of ours begins: behind a
// plain '<' they say at once that it is none of ours.
var dull = func() (s [256]bool) {
	for b := range utf8.RuneSelf {
		s[b] = unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b))
	}
	for _, name := range vocabulary {
		s[name[0]], s[unicode.ToUpper(rune(name[0]))] = false, false
	}
	return s
}()

// at reads a look-alike that begins at text[start].
func at(text string, start int) (t tag, ok bool) {
	r, size := unit(text[start:])
	if !opens(r) {
		return t, false
	}
	open := start + size
	closing, i := false, open
	for i < len(text) {
		r, size := unit(text[i:])
		if !slashes(r) && !fills(r) {
			break
		}
		closing = closing || slashes(r)
		i += size
	}
	spaced := i > open && !closing && (text[open] == ' ' || text[open] == '\t')
	for _, name := range vocabulary {
		if end, ok := spelled(text, i, name); ok && ended(text[end:], closing, spaced) {
			return tag{start, open, end}, true
		}
	}
	return t, false
}

// spelled reads name at text[i:] and returns where it ends.
func spelled(text string, i int, name string) (end int, ok bool) {
	for n := 0; n < len(name); {
		if i == len(text) {
			return 0, false
		}
		r, size := unit(text[i:])
		switch {
		case reads(r, rune(name[n])):
			n++
		case n == 0 || !fills(r):
			return 0, false
		}
		i += size
	}
	return i, true
}

// ended tells whether a name is over where rest begins. It is not where the name
// goes on, and it is none of ours where code compares with a variable that has it:
// i<source.length, i < source; but never after a slash.
func ended(rest string, closing, spaced bool) bool {
	if rest == "" {
		return true
	}
	r, _ := unit(rest)
	switch {
	case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-':
		return false
	case closing:
		return true
	case strings.ContainsRune(".;),]}+*|&", r):
		return false
	case !spaced:
		return true
	}
	// A bracket behind it is an operator too: out << source << end. So is the
	// sign that Neutralise puts for one.
	if rest = strings.TrimLeft(rest, " \t"); rest != "" {
		r, _ = unit(rest)
		return !opens(r) && !strings.ContainsRune(";),]}+*|&?[", r)
	}
	return true
}
