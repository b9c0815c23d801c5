package jsonschema

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// An about is what a page says of a key: a sentence, and what holds when it is absent.
type about struct {
	text     string
	fallback string // in words or as a file would have it; "" for none
	literal  any    // the fallback as a value, if it is one; else nil
}

// A pageOfKeys says what keys are for, by the key as in "policies.NAME.overrides[].models".
type pageOfKeys map[string]about

// readPage reads the tables of a page in Markdown whose first head is "key", "key of PREFIX" or
// "section". A row may be of several keys. Keys come with their default, sections do not.
func readPage(page string) pageOfKeys {
	keys, prefix, columns := pageOfKeys{}, "", 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i, cell := range cells {
			cells[i] = strings.TrimSpace(cell)
		}
		if columns == 0 {
			of, isKey := strings.CutPrefix(cells[0], "key")
			prefix, columns = strings.TrimPrefix(of, " of "), -1 // another table
			if prefix != "" {
				prefix += "."
			}
			switch {
			case isKey && len(cells) == 3:
				columns = 3
			case cells[0] == "section" && len(cells) == 2:
				prefix, columns = "", 2
			}
			continue
		}
		if len(cells) != columns || strings.HasPrefix(cells[0], "--") {
			continue
		}
		a := about{text: plain(cells[columns-1])}
		if columns == 3 {
			a.fallback, a.literal = fallback(cells[1])
		}
		for _, key := range code.FindAllStringSubmatch(cells[0], -1) {
			keys[prefix+key[1]] = a
		}
	}
	return keys
}

var (
	code     = regexp.MustCompile("`([^`]+)`")
	link     = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
	seeBelow = regexp.MustCompile(`;? see \[[^\]]+\]\([^)]+\)`)
)

// plain is a cell without marks and without what leads elsewhere on the page.
func plain(cell string) string {
	cell = link.ReplaceAllString(seeBelow.ReplaceAllString(cell, ""), "$1")
	return strings.ReplaceAll(cell, "`", "")
}

// fallback reads the cell of a default.
func fallback(cell string) (text string, literal any) {
	text = plain(cell)
	whole := code.FindStringSubmatch(cell)
	switch {
	case text == "none":
		return "", nil
	case whole != nil && whole[0] == cell && !strings.HasPrefix(text, "$"):
		return text, scalarOf(text)
	}
	if n, err := strconv.Atoi(text); err == nil {
		return text, n
	}
	return text, nil
}

// scalarOf is a value as a file has it.
func scalarOf(text string) any {
	var v any
	if strings.HasPrefix(text, "{{") || yaml.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}

// of is what is said of a key. Those of an override are those of its policy.
func (p pageOfKeys) of(key string) (about, bool) {
	a, ok := p[key]
	if rest, found := strings.CutPrefix(key, "policies.NAME.overrides[]."); !ok && found {
		return p.of("policies.NAME." + rest)
	}
	return a, ok
}

// describe adds to the schema of a key what is said of it, with its unit.
func (p pageOfKeys) describe(one object, key, unit string) object {
	a, ok := p.of(key)
	if !ok {
		return one
	}
	text := a.text
	if unit != "" {
		text += ". Written as " + unit
	}
	if a.fallback != "" {
		text += ". Default: " + a.fallback
	}
	one["description"] = text
	if a.literal != nil {
		one["default"] = a.literal
	}
	return one
}
