package chunks

import (
	"bytes"
	"encoding/json"
	"strings"

	"sidenote/rewrite/tags"
)

// marshal returns v as JSON without HTML escapes, and without the line feed that an Encoder
// appends.
func marshal(v any) (string, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err //nolint:wrapcheck // the callers say what it is about
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// decoded decodes a JSON value, with numbers as json.Number; nil for invalid JSON.
func decoded(text string) (v any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// quote returns s as a JSON string.
func quote(s string) string {
	text, err := marshal(s)
	if err != nil {
		panic("BUG: a string is no JSON: " + err.Error())
	}
	return text
}

// neutralise returns the content without anything that looks like a tag of v. In JSON, strings
// that would look like one when decoded are rewritten; every other byte is unchanged.
func (c Content) neutralise(v tags.Vocabulary) string {
	text := c.text
	if c.form == jsonValue && strings.IndexByte(text, '\\') >= 0 {
		text = neutraliseStrings(text, v)
	}
	text, _ = v.Neutralise(text, false)
	return text
}

// neutraliseStrings rewrites the strings of a JSON text in which an escape hides a tag, such as
// "\u003cthinking>". Tags without escapes are left to the caller.
func neutraliseStrings(text string, v tags.Vocabulary) string {
	return rewriteStrings(text, func(decoded string) (string, bool) {
		safe, found := v.Neutralise(decoded, false)
		return safe, found > 0
	})
}

// revealed returns the content for use inside other text, where it is no longer recognisable as
// JSON: strings with escapes are rewritten without needless ones.
func (c Content) revealed() string {
	if c.form != jsonValue || !strings.Contains(c.text, `\u`) {
		return c.text
	}
	return rewriteStrings(c.text, func(decoded string) (string, bool) { return decoded, true })
}

// Escaped returns the decoded strings of a JSON value that have escapes; none for a text.
func (c Content) Escaped() (decoded []string) {
	if c.form == jsonValue && strings.IndexByte(c.text, '\\') >= 0 {
		rewriteStrings(c.text, func(s string) (string, bool) {
			decoded = append(decoded, s)
			return "", false
		})
	}
	return decoded
}

// rewriteStrings calls rewrite with each decoded string of a JSON text that has escapes, and
// replaces those that rewrite changes.
func rewriteStrings(text string, rewrite func(decoded string) (with string, changed bool)) string {
	var out strings.Builder
	copied := 0
	for i := 0; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		start, escaped := i, false
		for i++; i < len(text) && text[i] != '"'; i++ {
			if text[i] == '\\' {
				escaped = true
				i++
			}
		}
		var decoded string
		if !escaped || json.Unmarshal([]byte(text[start:i+1]), &decoded) != nil {
			continue
		}
		if with, changed := rewrite(decoded); changed {
			out.WriteString(text[copied:start])
			out.WriteString(quote(with))
			copied = i + 1
		}
	}
	out.WriteString(text[copied:])
	return out.String()
}
