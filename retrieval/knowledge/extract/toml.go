package extract

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// yamlFrontMatter returns a text whose front matter is TOML, between +++ lines, with the same in
// YAML; other texts as they are. A date is a string, as in YAML. If it is not TOML, it is left out and
// the error is *Broken.
func yamlFrontMatter(text string) (string, error) {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "+++" {
		return text, nil
	}
	look := rest[:min(len(rest), maxFrontMatter)]
	at := 0
	for line := range strings.Lines(look) {
		if strings.TrimRight(line, " \t\n") == "+++" {
			if at > 0 && !strings.Contains(look[:at], "=") {
				return text, nil // these lines are a frame
			}
			matter, err := tomlToYAML(look[:at])
			return matter + rest[at+len(line):], err
		}
		at += len(line)
	}
	return text, nil
}

// tomlToYAML returns a front matter in YAML. Each value is JSON, which YAML includes.
func tomlToYAML(text string) (matter string, err error) {
	// A panic on hostile text must not end the process.
	defer func() {
		if recover() != nil {
			matter, err = "", Brokenf("its front matter is not TOML")
		}
	}()
	var values map[string]any
	meta, err := toml.Decode(text, &values)
	if err != nil {
		return "", Brokenf("its front matter is not TOML: %v", err)
	}
	var b strings.Builder
	b.WriteString("---\n")
	for _, key := range meta.Keys() {
		if len(key) != 1 {
			continue
		}
		value := values[key[0]]
		if t, ok := value.(time.Time); ok {
			value = dateText(t)
		}
		line, err := json.Marshal(value)
		if err != nil {
			continue // an infinite number
		}
		b.WriteString(yamlKey(key[0]) + ": " + string(line) + "\n")
	}
	b.WriteString("---\n")
	return b.String(), nil
}

// dateText returns a date or time as TOML has it. Those without a zone or a time are in locations
// that the parser names.
func dateText(t time.Time) string {
	switch t.Location().String() {
	case "date-local":
		return t.Format(time.DateOnly)
	case "time-local":
		return t.Format(time.TimeOnly)
	case "datetime-local":
		return t.Format("2006-01-02T15:04:05")
	}
	return t.Format(time.RFC3339)
}

// yamlKey returns a key for YAML, in quotes if it is not a plain word.
func yamlKey(key string) string {
	for _, c := range key {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			quoted, _ := json.Marshal(key) // a string has no error
			return string(quoted)
		}
	}
	return key
}
