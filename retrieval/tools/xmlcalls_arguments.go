package tools

import (
	"bytes"
	"encoding/json"
	"html"
	"iter"
	"regexp"
	"strings"
)

var (
	openingTag = regexp.MustCompile(`<\s*([A-Za-z_][\w-]*)(?:\s[^<>]*?)?(/?)>`)
	anyClosing = regexp.MustCompile(`<\s*/\s*([A-Za-z_][\w-]*)\s*>`)
	// reference matches the character references of XML. HTML has more, some without a semicolon,
	// which a query may hold by accident.
	reference = regexp.MustCompile(`&(?:lt|gt|amp|quot|apos|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});`)
)

// closingTag tells whether text ends with the closing tag of an element, and where that begins.
func closingTag(text, name []byte) (start int, ok bool) {
	const space = " \t\r\n"
	if text[len(text)-1] != '>' {
		return 0, false
	}
	text = bytes.TrimRight(text[:len(text)-1], space)
	at := len(text) - len(name)
	if at < 0 || !bytes.EqualFold(text[at:], name) {
		return 0, false
	}
	text, ok = bytes.CutSuffix(bytes.TrimRight(text[:at], space), []byte("/"))
	if !ok {
		return 0, false
	}
	text, ok = bytes.CutSuffix(bytes.TrimRight(text, space), []byte("<"))
	return len(text), ok
}

// arguments returns the elements in a call as a JSON object. What is empty is left out. A number
// that is none stays text: the tool says what it takes.
func arguments(body string) json.RawMessage {
	values := map[string]any{}
	for name, value := range elements(body) {
		if value == "" {
			continue
		}
		switch name {
		case "refs", "file_paths":
			list, _ := values[name].([]string)
			values[name] = append(list, items(value)...)
		case "top_k", "max_chars", "max_files", "max_tokens":
			if number := json.RawMessage(value); strings.IndexByte("-0123456789", value[0]) >= 0 && json.Valid(number) {
				values[name] = number
				continue
			}
			fallthrough
		default:
			values[name] = plain(value)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(values); err != nil {
		panic("BUG: encode arguments: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// elements are the elements of a text one after the other: names in lower case, and what is in
// them without white space at its ends. An element ends at its first closing tag, or with the
// text; what stands between elements is left out.
func elements(text string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for {
			tag := openingTag.FindStringSubmatchIndex(text)
			if tag == nil {
				return
			}
			name, empty, value := text[tag[2]:tag[3]], tag[4] < tag[5], ""
			if text = text[tag[1]:]; !empty {
				value, text = cutElement(text, name)
			}
			if !yield(strings.ToLower(name), strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// cutElement returns what is in an element, and what stands behind it.
func cutElement(text, name string) (value, rest string) {
	for at := 0; ; {
		tag := anyClosing.FindStringSubmatchIndex(text[at:])
		if tag == nil {
			return text, ""
		}
		if strings.EqualFold(text[at+tag[2]:at+tag[3]], name) {
			return text[:at+tag[0]], text[at+tag[1]:]
		}
		at += tag[1]
	}
}

// items returns the items of a list: elements of any name, a JSON list of texts, lines, or what
// stands between commas in a single line.
func items(value string) []string {
	var list []string
	for _, item := range elements(value) {
		list = append(list, plain(item))
	}
	if list != nil {
		return list
	}
	if json.Unmarshal([]byte(plain(value)), &list) == nil {
		return list
	}
	list = nil // may hold a part
	separator := "\n"
	if !strings.Contains(value, separator) {
		separator = ","
	}
	for item := range strings.SplitSeq(value, separator) {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, plain(item))
		}
	}
	return list
}

// plain replaces character references, once.
func plain(text string) string { return reference.ReplaceAllStringFunc(text, html.UnescapeString) }
