// Package tags renders sources as tags and prevents all other text from looking like one.
//
// Neutralise disarms whatever a tolerant reader (a model, a lenient parser) could take for a tag
// of a vocabulary, or for a token of a chat template. Count counts such tags, and AppendOpen and
// similar functions write the real ones. The package knows nothing of budgets, messages or
// policies.
package tags

import (
	"strings"
	"unicode/utf8"
)

// A Vocabulary is a set of tag names that other text must not imitate: those of the tags that
// this package writes and, for example, those of a template. The zero Vocabulary has only the
// former; see Only.
type Vocabulary struct {
	more     []string  // in the form returned by fold
	only     bool      // without those that this package writes
	initials [2]uint64 // the ASCII letters and digits with which they begin, one bit each
}

// own are the names of the tags that this package writes.
var own = [...]string{"sources", "source", "component"}

// NewVocabulary returns a Vocabulary of Sidenote's own tags and more.
func NewVocabulary(more ...string) (v Vocabulary) {
	for _, name := range more {
		if name == "" {
			continue
		}
		name = strings.Map(fold, name)
		v.more = append(v.more, name)
		if b := name[0]; b < utf8.RuneSelf {
			v.initials[b>>6] |= 1 << (b & 63)
		}
	}
	return v
}

// Only returns a Vocabulary without Sidenote's own tags, for texts in which these are real.
func Only(names ...string) Vocabulary {
	v := NewVocabulary(names...)
	v.only = true
	return v
}

// mayBegin reports whether b may be the first byte of a name.
func (v *Vocabulary) mayBegin(b byte) bool {
	lower := b | 0x20 // digits have that bit anyway
	return !alphanumeric(b) || lower == 's' || lower == 'c' || v.initials[lower>>6]>>(lower&63)&1 != 0
}

// Count returns how many tags of the vocabulary a tolerant reader could see in text: opening,
// closing or unfinished tags, in any letter case, with white space or invisible characters
// anywhere inside, with look-alike brackets, slashes and letters, and written as character
// references, escaped once or several times.
func (v Vocabulary) Count(text string) int {
	n := 0
	for t := (tag{}); v.next(&t, text); {
		if !t.token {
			n++
		}
	}
	return n
}

// A tag is a look-alike at text[start:end] with its opening bracket at text[start:open].
type tag struct {
	start, open, end int
	with             string // replaces the bracket
	token            bool   // it is a token of a chat template
}

// next sets t to the first look-alike whose bracket begins at t.open or later.
func (v *Vocabulary) next(t *tag, text string) bool {
	for i := t.open; ; i++ {
		i += skip(text[i:], &brackets)
		if i == len(text) {
			return false
		}
		// Fast path: no name begins with the character after this bracket.
		if (text[i] == '<' || text[i] == '[') && i+1 < len(text) && !v.mayFollow(text[i], text[i+1]) {
			continue
		}
		r, size := nextChar(text[i:])
		pointed := isOpener(r)
		if pointed {
			if found, ok := v.readTag(text, i, i+size); ok {
				*t = found
				return true
			}
		}
		if pointed || isSquare(r) {
			if found, ok := readToken(text, r, i, i+size); ok {
				*t = found
				return true
			}
		}
	}
}

// mayFollow reports whether b, after the given bracket, may be the first byte of the name of a
// tag or token.
func (v *Vocabulary) mayFollow(bracket, b byte) bool {
	switch {
	case !alphanumeric(b):
		return true
	case bracket == '[':
		return len(square.names[b])+len(upper.names[b]) > 0
	}
	return v.mayBegin(b) || len(plain.names[b])+len(halved.names[b]) > 0
}

// readTag reads a look-alike with the bracket at text[start:open].
func (v *Vocabulary) readTag(text string, start, open int) (t tag, ok bool) {
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
	ours := own[:]
	if v.only {
		ours = nil
	}
	for _, names := range [...][]string{ours, v.more} {
		for _, name := range names {
			if end, ok := matchName(text, i, name); ok && nameEnds(text[end:], closing, spaced) {
				return tag{start: start, open: open, end: end, with: disarmedBracket}, true
			}
		}
	}
	return t, false
}

// matchName reads name at text[i:], with fillers between letters and with look-alike letters, and
// returns where it ends.
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
