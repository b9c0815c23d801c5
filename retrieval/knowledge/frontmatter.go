package knowledge

import (
	"strings"

	"github.com/goccy/go-yaml"
)

// maxFrontMatter bounds what is looked through for the end of a front matter, in bytes.
const maxFrontMatter = 64 << 10

// frontMatter splits the YAML between --- lines from the start of a document, and
// returns the title in it. What does not look like a map is body: a document may
// begin with a thematic break.
func frontMatter(text string) (title, body string) {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text
	}
	matter := rest[:min(len(rest), maxFrontMatter)]
	at, titleAt, titleEnd := 0, -1, 0
	for line := range strings.Lines(matter) {
		switch trimmed := strings.TrimRight(line, " \t\n"); {
		case trimmed == "---" || trimmed == "...":
			if titleAt >= 0 {
				title = titleOf(matter[titleAt:titleEnd])
			}
			return title, rest[at+len(line):]
		case trimmed == "" || strings.ContainsAny(line[:1], " \t#-"):
			// part of the key before, a comment, or nothing
			if titleAt >= 0 && titleEnd == at {
				titleEnd += len(line)
			}
		case strings.HasSuffix(trimmed, ":") || strings.Contains(trimmed, ": "):
			if strings.HasPrefix(line, "title:") {
				titleAt, titleEnd = at, at+len(line)
			}
		default:
			return "", text
		}
		at += len(line)
	}
	return "", text
}

// titleOf reads the one key of a front matter that matters yet. Only this key is
// decoded: nothing else in it can cost anything.
func titleOf(lines string) string {
	var v struct {
		Title string `yaml:"title"`
	}
	if err := yaml.Unmarshal([]byte(lines), &v); err != nil {
		return ""
	}
	return strings.TrimSpace(v.Title)
}
