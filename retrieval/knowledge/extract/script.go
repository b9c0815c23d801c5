package extract

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// marked reports whether the text of an element means something else without its mark: raised,
// lowered and struck text.
func marked(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Sup, atom.Sub, atom.S, atom.Strike:
		return true
	}
	return false
}

// mark returns the text of a marked element, which follows before in a line.
func (r *renderer) mark(before string, n *html.Node) string {
	raw := r.visible(n)
	text := oneLine(raw)
	switch {
	case text == "":
	case n.DataAtom == atom.Sub:
		text = Subscript(text)
	case n.DataAtom != atom.Sup:
		text = "~~" + text + "~~"
	case noteMark(n):
		text = note(text)
	default:
		text = Superscript(before, text)
	}
	if strings.TrimRight(raw, " \t\n") != raw {
		text += " "
	}
	return text
}

// noteMark reports whether a sup element is, contains or is in a link within the page, which marks
// a footnote.
func noteMark(n *html.Node) bool {
	inPage := func(n *html.Node) bool { return n.DataAtom == atom.A && strings.HasPrefix(attr(n, "href"), "#") }
	if n.Parent != nil && inPage(n.Parent) {
		return true
	}
	for c := range n.Descendants() {
		if inPage(c) {
			return true
		}
	}
	return false
}

// note returns the mark of a footnote in brackets.
func note(text string) string {
	if text == "" || strings.HasPrefix(text, "[") {
		return text
	}
	return "[" + text + "]"
}

// Superscript returns raised text so that it stays distinct from the text before it: an exponent as
// ^3, a footnote mark as [1], and a word such as th or TM as it is.
func Superscript(before, text string) string {
	text = strings.TrimSpace(text)
	last, _ := utf8.DecodeLastRuneInString(before)
	base := unicode.IsLetter(last) || unicode.IsDigit(last) || last == ')'
	first, size := utf8.DecodeRuneInString(text)
	switch {
	case text == "" || !base && strings.HasPrefix(text, "["):
		return text
	case !base && (unicode.IsDigit(first) || size == len(text)), base && size == len(text) && strings.ContainsRune("*†‡§¶", first):
		return note(text)
	case !base, allLetters(text) && size < len(text), strings.ContainsRune("®™©℠ªº[", first):
		return text
	case allDigits(text) && longWord(before):
		return note(text)
	case strings.ContainsFunc(text[size:], func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != ',' }):
		return "^(" + text + ")"
	}
	return "^" + text
}

// Subscript returns lowered text: digits as Unicode subscripts, which search folds to digits, and
// other text after a low line.
func Subscript(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if !allDigits(text) {
		return "_" + text
	}
	return strings.Map(func(r rune) rune { return '₀' + r - '0' }, text)
}

func allDigits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

func allLetters(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }) < 0
}

// longWord reports whether a text ends with a word of at least four lower-case letters, which is no
// unit of measurement.
func longWord(text string) bool {
	const least = 4
	n := 0
	for text != "" && n < least {
		r, size := utf8.DecodeLastRuneInString(text)
		if !unicode.IsLower(r) {
			return false
		}
		text, n = text[:len(text)-size], n+1
	}
	return n == least
}
