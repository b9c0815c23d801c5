package tags

import (
	"strings"
	"unicode"
)

// operators are characters that follow a variable in code but never a name in a tag, as in
// i<source.length.
const operators = ".;),]}+*|&"

// nameEnds reports whether a tag's name ends where rest begins. It does not if the name
// continues, nor if this is code that compares a variable of that name: i<source.length, i <
// source. A closing tag, or a name before attributes, is never taken for code.
func nameEnds(rest string, closing, spaced bool) bool {
	if rest == "" {
		return true
	}
	r, size := nextChar(rest)
	switch {
	case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-':
		return false
	case closing:
		return true
	case strings.ContainsRune(operators, r):
		return attributes(rest[size:], r == ';' || r == ',')
	case !spaced:
		return true
	}
	// A bracket after the name is an operator, too: out << source << end. So is '[', with which
	// Neutralise replaces a bracket.
	if rest = strings.TrimLeft(rest, " \t"); rest != "" {
		r, _ = nextChar(rest)
		return !isOpener(r) && !strings.ContainsRune(";),]}+*|&?[", r)
	}
	return true
}

// attributesWithin is how many bytes attributes reads. Text that looks like attributes up to
// there is taken for a tag.
const attributesWithin = 256

// attributes reports whether the text after a stray operator continues as a tag does, and not as
// code: <source; id="1">. With mayClose it needs no attribute: <source;>.
func attributes(text string, mayClose bool) bool {
	whole := len(text) <= attributesWithin
	text = skipFillers(text[:min(len(text), attributesWithin)])
	for n := 0; text != ""; n++ {
		if n > 0 || mayClose {
			r, size := nextChar(text)
			if isSlash(r) {
				r, _ = peekChar(skipFillers(text[size:]))
			}
			if isCloser(r) {
				return true
			}
		}
		rest, ok := assigned(text)
		if !ok {
			return false
		}
		text = skipFillers(rest)
	}
	return !whole
}

// assigned reads name="value" or name=value and returns the text after it. If text ends in the
// middle of one, it reads to the end.
func assigned(text string) (rest string, ok bool) {
	name := skipWhile(text, func(r rune) bool { return unicode.IsLetter(fold(r)) || strings.ContainsRune("-_:", r) })
	if len(name) == len(text) {
		return "", false
	}
	text = skipFillers(name)
	r, size := peekChar(text)
	if fold(r) != '=' {
		return "", text == ""
	}
	text = skipFillers(text[size:])
	if quote, size := peekChar(text); unicode.Is(unicode.Quotation_Mark, quote) {
		rest = skipWhile(text[size:], func(r rune) bool { return !unicode.Is(unicode.Quotation_Mark, r) })
		_, size = peekChar(rest)
		return rest[size:], true
	}
	rest = skipWhile(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '.' })
	return rest, true
}

// skipWhile returns text without leading characters for which is returns true.
func skipWhile(text string, is func(rune) bool) string {
	for text != "" {
		r, size := nextChar(text)
		if !is(r) {
			break
		}
		text = text[size:]
	}
	return text
}

// peekChar is nextChar, but returns 0 at the end of text.
func peekChar(text string) (r rune, size int) {
	if text == "" {
		return 0, 0
	}
	return nextChar(text)
}

// skipFillers returns text without leading characters accepted by isFiller.
func skipFillers(text string) string { return skipWhile(text, isFiller) }

// isCloser reports whether r is '>' or looks like it.
func isCloser(r rune) bool {
	return strings.ContainsRune(">\uff1e\ufe65\u203a\u276f\u276d\u2771\u3009\u232a\u27e9\u29fd\u02c3", r)
}
