package rewrite

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"sidenote/rewrite/tags"
)

// Safe neutralises text: nothing in the result looks like one of Sidenote's tags, like the number
// of a source (in plain format) or like the heading of a component (with headings). It trims
// blank lines at both ends, because a blank first line would merge with the line feed of the tag
// above it into another token.
func (s *Style) Safe(text string, ours tags.Vocabulary, components func() []string) string {
	body, _ := ours.Neutralise(text, s.Escape == EscapeAll)
	if s.SourcesFormat == SourcesPlain {
		body = withoutNumbers(body)
	}
	if s.ComponentsFormat == ComponentsHeadings {
		body = withoutHeadings(body, components)
	}
	body = strings.TrimRight(body, " \t\n")
	for {
		line, rest, more := strings.Cut(body, "\n")
		if !more || strings.TrimSpace(line) != "" {
			return body
		}
		body = rest
	}
}

// withoutNumbers replaces square brackets around numbers at the beginnings of lines by round
// ones.
func withoutNumbers(text string) string {
	if !strings.ContainsAny(text, "[\uff3b") {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		rest := strings.TrimLeftFunc(line, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
		open, size := utf8.DecodeRuneInString(rest)
		inside := strings.TrimLeftFunc(rest[size:], func(r rune) bool { return unicode.IsDigit(r) || unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
		end, endSize := utf8.DecodeRuneInString(inside)
		number := rest[size : len(rest)-len(inside)]
		if (open == '[' || open == '\uff3b') && (end == ']' || end == '\uff3d') && strings.ContainsFunc(number, unicode.IsDigit) {
			lines[i] = line[:len(line)-len(rest)] + "(" + number + ")" + inside[endSize:]
		}
	}
	return strings.Join(lines, "")
}

// withoutHeadings turns lines that look like the heading of a component or of the sources into
// second-level headings, whatever their case and characters.
func withoutHeadings(text string, components func() []string) string {
	if !strings.ContainsAny(text, "#\uff03") {
		return text
	}
	ours := tags.NewVocabulary(append([]string{SourcesName}, components()...)...)
	blank := func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		rest := strings.TrimLeftFunc(line, blank)
		sign, size := utf8.DecodeRuneInString(rest)
		if sign != '#' && sign != '\uff03' {
			continue
		}
		name := strings.TrimFunc(strings.TrimRight(strings.TrimRightFunc(rest[size:], blank), "#"), blank)
		if name != "" && !strings.ContainsFunc(name, unicode.IsSpace) && ours.Count("<"+name+">") > 0 {
			lines[i] = line[:len(line)-len(rest)] + "#" + rest
		}
	}
	return strings.Join(lines, "")
}
