package extract

import (
	"strings"
	"unicode"
)

// markdownLiteral escapes a line of text that would be read as a heading, the underline of a
// heading or a fence.
func markdownLiteral(line string) string {
	if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") || line != "" && strings.Trim(line, "=-") == "" {
		return `\` + line
	}
	return line
}

// maxFence is the longest fence that is written. A listing with a longer run of backticks ends
// early.
const maxFence = 40

// markdownListing returns a listing of text, without a final line break.
func markdownListing(language, text string) string {
	fence := "```"
	for len(fence) < maxFence && strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + text + "\n" + fence
}

// markdownTable writes rows, whose cells are single lines, as a Markdown table; the first row is
// its head. Empty rows are left out, and short rows are not padded.
func markdownTable(rows [][]string) string {
	var b strings.Builder
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	headed := false
	for _, row := range rows {
		if strings.Join(row, "") == "" {
			continue
		}
		b.WriteString("|")
		for _, cell := range row {
			b.WriteString(" " + strings.ReplaceAll(cell, "|", `\|`) + " |")
		}
		if !headed {
			b.WriteString(strings.Repeat("  |", width-len(row)) + "\n|" + strings.Repeat(" --- |", width))
			headed = true
		}
		b.WriteString("\n")
	}
	return b.String()
}

// isLanguage reports whether s can name the language of a listing.
func isLanguage(s string) bool {
	return s != "" && len(s) <= 20 && strings.IndexFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '+' && r != '#'
	}) < 0
}
