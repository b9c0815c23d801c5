package extract

import (
	"regexp"
	"slices"
	"strings"
)

const (
	// yamlBlock is the size in bytes up to which the value of a key stays in one listing.
	yamlBlock = 1000
	// yamlLevels is how many levels of keys become headings.
	yamlLevels = 4
)

// readYAML returns a file of YAML. An OpenAPI description is read as such.
func readYAML(text string) (Document, error) {
	if d, ok := openAPIInYAML(text); ok {
		return d, nil
	}
	c := configText{language: "yaml"}
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\n")
		if line == "---" || line == "..." || strings.HasPrefix(line, "--- ") {
			c.yamlDocument(lines)
			lines = nil
			continue
		}
		lines = append(lines, line)
	}
	c.yamlDocument(lines)
	return c.document(), nil
}

// yamlDocument writes a document of a stream. An object of Kubernetes has its kind and name as a
// heading, and a Secret has no data.
func (c *configText) yamlDocument(lines []string) {
	entries := yamlEntries(lines)
	level := 2
	kind, name := yamlScalar(entries, "kind"), ""
	for _, e := range entries {
		if e.key == "metadata" {
			name = yamlScalar(yamlEntries(e.lines[1:]), "name")
		}
	}
	if kind != "" && name != "" && yamlScalar(entries, "apiVersion") != "" {
		c.heading(level, kind+" "+name)
		level++
		if kind == "Secret" {
			entries = slices.DeleteFunc(entries, func(e yamlEntry) bool { return e.key == "data" || e.key == "stringData" })
		}
	}
	c.yaml(entries, level)
}

// A yamlEntry is a key with its value, or an item of a list, and the comments above.
type yamlEntry struct {
	key      string // "" of an item, and of lines that are neither
	comments int    // lines above
	lines    []string
}

// yamlKeyLine matches a key at the start of a line, and what follows it.
var yamlKeyLine = regexp.MustCompile(`^("[^"]*"|'[^']*'|[^\s#'"\[\]{}&*!|>%@,-][^#]*?|-[^\s#][^#]*?):(\s.*)?$`)

// yamlEntries divides lines at the keys or items of the least indent.
func yamlEntries(lines []string) (entries []yamlEntry) {
	least := -1
	for _, line := range lines {
		if !blankYAML(line) && (least < 0 || spacesOf(line) < least) {
			least = spacesOf(line)
		}
	}
	start, comments := 0, 0 // of the current entry; of the next one
	key, head, items := "", 0, false
	end := func(at int) {
		if at > start {
			entries = append(entries, yamlEntry{key: key, comments: head, lines: lines[start:at]})
		}
		start = at
	}
	begun := false
	for i, line := range lines {
		if line == "" || spacesOf(line) == least && line[least] == '#' {
			comments++
			continue
		}
		if spacesOf(line) == least {
			m := yamlKeyLine.FindStringSubmatch(line[least:])
			item := line[least:] == "-" || strings.HasPrefix(line[least:], "- ")
			items = items || item && !begun
			if m != nil || item && items {
				end(i - comments)
				key, head = "", comments
				if m != nil {
					key = strings.Trim(m[1], `"'`)
				}
			}
			begun = true
		}
		comments = 0
	}
	end(len(lines))
	return entries
}

// blankYAML reports whether a line has no content.
func blankYAML(line string) bool {
	text := strings.TrimLeft(line, " ")
	return text == "" || text[0] == '#'
}

// yamlScalar returns the value of a key in one line; "" if there is none.
func yamlScalar(entries []yamlEntry, key string) string {
	for _, e := range entries {
		if e.key == key {
			_, value, _ := strings.Cut(e.lines[e.comments], ":")
			value, _, _ = strings.Cut(value, " #")
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// nested reports whether the value of an entry is on more lines than that of its key.
func (e yamlEntry) nested() bool {
	return slices.ContainsFunc(e.lines[min(e.comments+1, len(e.lines)):], func(line string) bool { return !blankYAML(line) })
}

// value returns what follows the key of an entry in its line.
func (e yamlEntry) value() string {
	head := strings.TrimLeft(e.lines[e.comments], " ")
	if m := yamlKeyLine.FindStringSubmatch(head); m != nil {
		return strings.TrimSpace(m[2])
	}
	return head
}

// size returns the size of an entry in bytes.
func (e yamlEntry) size() (bytes int) {
	for _, line := range e.lines {
		bytes += len(line) + 1
	}
	return bytes
}

// yaml writes entries. One whose value is nested has its key as its heading; several others share
// one, except at the start.
func (c *configText) yaml(entries []yamlEntry, level int) {
	for i := 0; i < len(entries); {
		e := entries[i]
		if e.key != "" && e.nested() {
			c.heading(level, e.key)
			c.yamlValue(e, level)
			i++
			continue
		}
		var keys, lines []string
		first := i
		for ; i < len(entries) && (entries[i].key == "" || !entries[i].nested()); i++ {
			if lines = append(lines, entries[i].lines...); entries[i].key != "" {
				keys = append(keys, entries[i].key)
			} else { // items are listings of their own
				c.listing(lines)
				lines = nil
			}
		}
		if first > 0 {
			c.heading(level, strings.Join(keys, ", "))
		}
		c.listing(lines)
	}
}

// yamlValue writes an entry below its heading.
func (c *configText) yamlValue(e yamlEntry, level int) {
	value := e.value()
	if e.size() <= yamlBlock || level > yamlLevels || value != "" && value[0] != '#' && value[0] != '&' && value[0] != '!' {
		c.listing(e.lines)
		return
	}
	if e.comments > 0 || value != "" {
		c.listing(e.lines[:e.comments+1])
	}
	c.yaml(yamlEntries(e.lines[e.comments+1:]), level+1)
}
