package config

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// descriptions hold the texts of all keys and sections, by keys such as
// "policies.NAME.overrides[].models".
type descriptions map[string]about

func describeKeys() descriptions {
	all := descriptions{}
	for _, s := range sections() {
		if s.at != "" {
			key := strings.TrimSuffix(strings.TrimSuffix(s.at, ".NAME"), "[]")
			if _, ok := all[key]; !ok { // a row about a section wins
				all[key] = about{text: s.text}
			}
		}
		for _, a := range s.keys {
			all[join(s.at, a.name)] = a
		}
	}
	return all
}

func join(at, name string) string { return strings.TrimPrefix(at+"."+name, ".") }

// of returns the description of a key, or of the key that it repeats.
func (d descriptions) of(key string) (about, bool) {
	if a, ok := d[key]; ok {
		return a, true
	}
	for _, r := range repeated() {
		if rest, ok := strings.CutPrefix(key, r[0]); ok {
			return d.of(r[1] + rest)
		}
	}
	return about{}, false
}

// describe adds the description, unit and default of a key to its schema. It panics if the key has
// no description.
func (d descriptions) describe(one object, key, unit string) object {
	a, ok := d.of(key)
	if !ok {
		panic("BUG: the table describes no key " + key)
	}
	text := plain(a.text)
	if unit != "" {
		text += " Written as " + unit + "."
	}
	fallback, literal := a.value()
	if fallback != "" {
		text += " Default: " + fallback
	}
	one["description"] = text
	if literal != nil {
		one["default"] = literal
	}
	return one
}

var code = regexp.MustCompile("`([^`]+)`")

// plain returns a text without code marks.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

// value returns the default in words, and its value if it is a literal.
func (a about) value() (text string, literal any) {
	text = plain(a.fallback)
	whole := code.FindString(a.fallback)
	if whole != "" && whole == a.fallback && !strings.HasPrefix(text, "$") {
		return text, scalarOf(text)
	}
	if n, err := strconv.Atoi(text); err == nil {
		return text, n
	}
	return text, nil
}

// scalarOf returns the value of a YAML scalar.
func scalarOf(text string) any {
	var v any
	if strings.HasPrefix(text, "{{") || yaml.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}
