package tags

import (
	"slices"
	"strconv"
	"unicode"
)

// The closing tags and the outer element, each on a line of its own: token counts of blocks made
// of whole lines can be added up.
const (
	SourcesOpen    = "<sources>\n"
	SourcesClose   = "</sources>\n"
	SourceClose    = "</source>\n"
	ComponentClose = "</component>\n"
)

// A Source holds the attributes in the opening tag of a source.
type Source struct {
	ID      int    // id: in the prompt, from 1
	Type    string // type: "rag"
	KB      string // kb_id: the knowledge base
	Doc     string // doc_id
	Name    string // name: the document's title
	Section string // section: the heading path; omitted if ""
	Date    string // date: of a document that has several versions; omitted if ""
}

// AppendOpen appends the opening tag of s, without a line feed. The attributes are in the fixed
// order id, type, kb_id, doc_id, name, section, date: id always, the others if listed in
// attributes, section and date only if not empty.
//
//	<source id="1" type="rag" kb_id="handbook" doc_id="leave.md" name="Leave policy" section="Parental leave">
func (v Vocabulary) AppendOpen(dst []byte, s Source, attributes []string) []byte {
	dst = append(dst, `<source id="`...)
	dst = strconv.AppendInt(dst, int64(s.ID), 10)
	dst = append(dst, '"')
	for _, a := range [...]struct{ name, value string }{
		{"type", s.Type}, {"kb_id", s.KB}, {"doc_id", s.Doc}, {"name", s.Name}, {"section", s.Section}, {"date", s.Date},
	} {
		if (a.value != "" || a.name != "section" && a.name != "date") && slices.Contains(attributes, a.name) {
			dst = v.AppendAttr(dst, a.name, a.value)
		}
	}
	return append(dst, '>')
}

// AppendComponentOpen appends <component name="…">, without a line feed.
func AppendComponentOpen(dst []byte, name string) []byte {
	return append(Vocabulary{}.AppendAttr(append(dst, "<component"...), "name", name), '>')
}

// maxAttr is the maximum length of a value in runes.
const maxAttr = 200

// AppendAttr appends ` name="value"` with a safe value: neutralised, on one line (each run of
// white space and controls becomes one space, none at the ends), with & < > " escaped. A value
// longer than 200 runes is cut to 199 and an ellipsis. name is not escaped.
func (v Vocabulary) AppendAttr(dst []byte, name, value string) []byte {
	dst = append(dst, ' ')
	dst = append(dst, name...)
	dst = append(dst, `="`...)
	value = v.tidy(value)
	for i := range len(value) {
		switch value[i] {
		case '&':
			dst = append(dst, "&amp;"...)
		case '<':
			dst = append(dst, "&lt;"...)
		case '>':
			dst = append(dst, "&gt;"...)
		case '"':
			dst = append(dst, "&quot;"...)
		default:
			dst = append(dst, value[i])
		}
	}
	return append(dst, '"')
}

// AppendLine appends value, made safe as by AppendAttr but without escapes, for lines outside of
// tags.
func (v Vocabulary) AppendLine(dst []byte, value string) []byte { return append(dst, v.tidy(value)...) }

// tidy returns value neutralised, on one line and limited in length.
func (v Vocabulary) tidy(value string) string {
	if !isTidy(value) {
		// Neutralise last: neither the cut nor a removed character may create a tag.
		value, _ = v.Neutralise(oneLine(value), false)
	}
	return value
}

// isTidy reports whether value is not empty, short, plain ASCII and on one line, so that it needs
// only escaping. It is a fast path: for such values tidy changes nothing.
func isTidy(value string) bool {
	before := byte(' ')
	for i := range len(value) {
		b := value[i]
		if b < ' ' || b > '~' || brackets[b] || b == ' ' && before == ' ' {
			return false
		}
		before = b
	}
	return before != ' ' && len(value) <= maxAttr
}

// oneLine replaces each run of white space and controls by one space, removes hidden characters
// and cuts to maxAttr runes.
func oneLine(value string) string {
	out := make([]rune, 0, maxAttr+2)
	gap := false
	for _, r := range value {
		if hidden(r) {
			continue
		}
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			gap = len(out) > 0
			continue
		}
		if gap {
			out, gap = append(out, ' '), false
		}
		if out = append(out, r); len(out) > maxAttr {
			return string(out[:maxAttr-1]) + "…"
		}
	}
	return string(out)
}
