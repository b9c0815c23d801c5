// Package tags renders sources as tags and keeps every other text from looking like
// one.
//
// Scan finds whatever a tolerant reader (a model, a lenient parser) could take for a
// tag of our vocabulary, Neutralise makes it harmless, and AppendOpen and similar
// functions write the real tags. The package knows nothing of budgets, messages or
// policies.
package tags

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Vocabulary is a set of tag names that other text must not imitate: our own and, for
// example, those of a template. It is safe for concurrent use.
type Vocabulary struct {
	names      []string  // as fold returns them
	notInitial [256]bool // ASCII letters and digits that no name begins with
}

var ours = NewVocabulary()

// Ours returns the names of the tags that this package writes.
func Ours() *Vocabulary { return ours }

// NewVocabulary returns the names of our own tags and more.
func NewVocabulary(more ...string) *Vocabulary {
	v := &Vocabulary{names: []string{"sources", "source", "component"}}
	for _, name := range more {
		if name != "" {
			v.names = append(v.names, strings.Map(fold, name))
		}
	}
	for b := range utf8.RuneSelf {
		v.notInitial[b] = unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b))
	}
	for _, name := range v.names {
		v.notInitial[name[0]], v.notInitial[unicode.ToUpper(rune(name[0]))] = false, false
	}
	return v
}

// A Span is a piece of a text by byte offsets: text[Start:End].
type Span struct{ Start, End int }

// Scan returns everything that a tolerant reader could take for a tag of the
// vocabulary, each from its opening bracket to the end of its name: opening, closing or
// unfinished tags, in any letter case, with white space or invisible characters
// anywhere inside, with look-alike brackets, slashes and letters, and written in
// character references, escaped once or several times.
func (v *Vocabulary) Scan(text string) []Span {
	var spans []Span
	for t := (tag{}); v.next(&t, text); {
		spans = append(spans, Span{t.start, t.end})
	}
	return spans
}

// Count returns how many tags of the vocabulary a tolerant reader could see in
// text: the length of Scan without the list.
func (v *Vocabulary) Count(text string) int {
	n := 0
	for t := (tag{}); v.next(&t, text); {
		n++
	}
	return n
}

// Scan is Vocabulary.Scan for our own tags.
func Scan(text string) []Span { return ours.Scan(text) }

// Count is Vocabulary.Count for our own tags.
func Count(text string) int { return ours.Count(text) }

// A tag is a look-alike, text[start:end]; its opening bracket is text[start:open].
type tag struct{ start, open, end int }

// next moves t to the first look-alike whose bracket begins at t.open or later.
func (v *Vocabulary) next(t *tag, text string) bool {
	for i := t.open; ; i++ {
		i += skip(text[i:], &brackets)
		if i == len(text) {
			return false
		}
		// Fast path: no name begins with the character behind this '<'.
		if text[i] == '<' && i+1 < len(text) && v.notInitial[text[i+1]] {
			continue
		}
		if found, ok := v.readTag(text, i); ok {
			*t = found
			return true
		}
	}
}

// readTag reads a look-alike that begins at text[start].
func (v *Vocabulary) readTag(text string, start int) (t tag, ok bool) {
	r, size := nextChar(text[start:])
	if !isOpener(r) {
		return t, false
	}
	open := start + size
	closing, i := false, open
	for i < len(text) {
		r, size := nextChar(text[i:])
		if !isSlash(r) && !isFiller(r) {
			break
		}
		closing = closing || isSlash(r)
		i += size
	}
	spaced := i > open && (text[open] == ' ' || text[open] == '\t')
	for _, name := range v.names {
		if end, ok := matchName(text, i, name); ok && nameEnds(text[end:], closing, spaced) {
			return tag{start, open, end}, true
		}
	}
	return t, false
}

// matchName reads name at text[i:], with fillers between its letters and with letters
// that look alike, and returns where it ends.
func matchName(text string, i int, name string) (end int, ok bool) {
	for name != "" {
		if i == len(text) {
			return 0, false
		}
		letter, width := utf8.DecodeRuneInString(name)
		r, size := nextChar(text[i:])
		switch {
		case readsAs(r, letter):
			name = name[width:]
		case !isFiller(r):
			return 0, false
		}
		i += size
	}
	return i, true
}
