package terminal

import (
	"strings"

	"golang.org/x/text/width"
)

// Fit makes untrusted text safe and truncates it to so many columns; Chinese, Japanese and Korean
// characters take two.
func Fit(text string, wide int) string { return cut(Clean(text), wide) }

// Wrap breaks a text at its spaces into lines of so many columns. A longer word gets a line of its
// own.
func Wrap(text string, wide int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(text) {
		n := columns(word)
		if line != "" && used+1+n > wide {
			lines, line, used = append(lines, line), "", 0
		}
		if line != "" {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+n
	}
	return append(lines, line)
}

// cut truncates clean text to so many columns.
func cut(text string, wide int) string {
	used := 0
	for i, r := range text {
		if used += columnsOf(r); used > wide {
			if wide <= 0 {
				return ""
			}
			runes := []rune(text[:i])
			return string(runes[:max(0, len(runes)-1)]) + "…"
		}
	}
	return text
}

// columns returns the width of clean text in columns.
func columns(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	if kind := width.LookupRune(r).Kind(); kind == width.EastAsianWide || kind == width.EastAsianFullwidth {
		return 2
	}
	return 1
}
