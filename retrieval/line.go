package retrieval

import (
	"strings"
	"unicode"
)

// mostLine limits a Line, in bytes.
const mostLine = 200

// Line makes a name from elsewhere one short line that is safe for a list or a terminal.
func Line(name string) string {
	name = strings.Join(strings.Fields(strings.Map(Visible, name)), " ")
	if len(name) > mostLine {
		name = strings.ToValidUTF8(name[:mostLine-len("…")], "") + "…"
	}
	return name
}

// Visible maps white space to a blank, and control characters, bidi marks and private-use characters to
// nothing, for strings.Map.
func Visible(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.Is(unicode.C, r), r == unicode.ReplacementChar:
		return -1
	}
	return r
}

// TrimLines removes blank lines at both ends, and white space at the very end.
func TrimLines(text string) string {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	for {
		line, rest, more := strings.Cut(text, "\n")
		if !more || strings.TrimSpace(line) != "" {
			return text
		}
		text = rest
	}
}
