package extract

import "strings"

// Demote returns a Markdown text with its headings one level lower.
func Demote(text string) string {
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		mark := fenceOf(line)
		switch {
		case fence != "":
			if strings.HasPrefix(mark, fence) && strings.TrimSpace(line) == mark {
				fence = ""
			}
		case mark != "":
			fence = mark
		case strings.HasPrefix(line, "#") && !strings.HasPrefix(line, strings.Repeat("#", maxLevel)):
			b.WriteByte('#')
		}
		b.WriteString(line)
	}
	return b.String()
}
