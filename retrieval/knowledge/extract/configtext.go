package extract

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Files of configuration (YAML, TOML, INI and properties) keep their lines, because comments explain
// what is set, and values mean what they look like: 1.10, yes. They are divided at their keys, which
// become headings, into listings. They are not decoded, so that aliases and merges cost nothing.

// A configText writes headings and listings.
type configText struct {
	out      strings.Builder
	language string
}

func (c *configText) heading(level int, text string) {
	text = oneLine(text)
	text = strings.ToValidUTF8(text[:min(len(text), maxHeader)], "")
	if text != "" {
		c.out.WriteString(strings.Repeat("#", min(level, maxLevel)) + " " + text + "\n\n")
	}
}

// listing writes lines without the indent that all have, and blank lines around them.
func (c *configText) listing(lines []string) {
	text := strings.Trim(strings.Join(unindented(lines), "\n"), "\n")
	if strings.TrimSpace(text) != "" {
		c.out.WriteString(markdownListing(c.language, text) + "\n\n")
	}
}

func (c *configText) document() Document {
	return Document{Text: strings.TrimSuffix(c.out.String(), "\n"), Form: Markdown}
}

// unindented returns lines without the spaces that all of them begin with.
func unindented(lines []string) []string {
	common := -1
	for _, line := range lines {
		if strings.TrimSpace(line) != "" && (common < 0 || spacesOf(line) < common) {
			common = spacesOf(line)
		}
	}
	if common <= 0 {
		return lines
	}
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = line[min(common, spacesOf(line)):]
	}
	return out
}

func spacesOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// readTOML returns a file of TOML. Its tables are sections.
func readTOML(text string) Document {
	c := configText{language: "toml"}
	quote := "" // of an open string of several lines
	c.sections(text, func(line string) (name string, ok bool) {
		inside := quote != ""
		for rest := line; ; {
			if quote != "" {
				at := strings.Index(rest, quote)
				if at < 0 {
					break
				}
				rest, quote = rest[at+len(quote):], ""
			}
			at := strings.IndexAny(rest, `"'#`)
			if at < 0 || rest[at] == '#' {
				break
			}
			if three := strings.Repeat(rest[at:at+1], 3); strings.HasPrefix(rest[at:], three) {
				rest, quote = rest[at+len(three):], three
				continue
			}
			_, after, closed := strings.Cut(rest[at+1:], rest[at:at+1])
			if !closed {
				break
			}
			rest = after
		}
		return bracketed(line, inside)
	})
	return c.document()
}

// readINI returns a file in INI or a similar format. Its sections are sections.
func readINI(text string) Document {
	c := configText{language: "ini"}
	c.sections(text, func(line string) (string, bool) { return bracketed(line, false) })
	return c.document()
}

// sectionLine is the line above a section in INI, or a table in TOML.
var sectionLine = regexp.MustCompile(`^\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*([#;].*)?$`)

// bracketed returns the name in the line above a section; not if it is inside a string.
func bracketed(line string, inside bool) (name string, ok bool) {
	if inside || !strings.HasPrefix(strings.TrimLeft(line, " \t"), "[") {
		return "", false
	}
	m := sectionLine.FindStringSubmatch(line)
	if m == nil || strings.HasPrefix(line, "[[") != strings.Contains(line, "]]") {
		return "", false
	}
	return m[1], true
}

// sections writes the sections of a text, whose first lines begins recognizes. Comments above that
// line belong to the section. Paragraphs are listings of their own.
func (c *configText) sections(text string, begins func(line string) (name string, ok bool)) {
	var lines []string
	comments := 0 // lines at the end that are comments
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\n")
		if name, ok := begins(line); ok {
			c.paragraphs(lines[:len(lines)-comments])
			c.heading(2, name)
			lines, comments = lines[len(lines)-comments:], 0
			continue
		}
		lines = append(lines, line)
		if comments++; line == "" || !strings.ContainsAny(strings.TrimLeft(line, " \t")[:1], "#;") {
			comments = 0
		}
	}
	c.paragraphs(lines)
}

// paragraphs writes lines as listings that end at blank lines.
func (c *configText) paragraphs(lines []string) {
	start := 0
	for i, line := range lines {
		if line == "" {
			c.listing(lines[start:i])
			start = i + 1
		}
	}
	c.listing(lines[start:])
}

// propertyEscape is a character that a file of properties has in ASCII.
var propertyEscape = regexp.MustCompile(`(\\u[0-9a-fA-F]{4})+`)

// readProperties returns a file of Java properties.
func readProperties(text string) Document {
	text = propertyEscape.ReplaceAllStringFunc(text, func(escaped string) string {
		var plain string
		if json.Unmarshal([]byte(`"`+escaped+`"`), &plain) != nil || strings.ContainsAny(plain, "\x00\r\n\ufffd") {
			return escaped
		}
		return plain
	})
	c := configText{language: "properties"}
	c.sections(text, func(string) (string, bool) { return "", false })
	return c.document()
}
