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
	// which a query may contain by accident.
	reference = regexp.MustCompile(`&(?:lt|gt|amp|quot|apos|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});`)
)

// closingTag reports whether text ends with the closing tag of an element, and where the tag
// begins.
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

// arguments converts the elements of a call to a JSON object. Empty elements are omitted. An
// invalid number stays text, and the tool reports the error.
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

// elements iterates over the consecutive elements of a text: lower-case names, and contents
// without surrounding white space. An element ends at its first closing tag, or with the text;
// text between elements is ignored.
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

// cutElement returns the content of an element, and the rest of the text after it.
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

// items returns the items of a list: elements of any name, a JSON list of strings, lines, or the
// comma-separated parts of a single line.
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
	list = nil // may be partly filled
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

// plain decodes character references, once.
func plain(text string) string { return reference.ReplaceAllStringFunc(text, html.UnescapeString) }
