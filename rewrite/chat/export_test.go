package chat

import "fmt"

// Inside looks for the end of a string.
var Inside = inside

// The marks that they return.
const (
	MarkEscape = markEscape
	MarkWide   = markWide
	MarkCode   = markCode
)

// Marks are the kinds of bytes seen in strings.
type Marks = marks

// Outline describes each message: role, kind, content, and its text.
func (r *Request) Outline() (lines []string) {
	for _, m := range r.kept {
		lines = append(lines, fmt.Sprint(m.role, m.kind, string(m.content.Of(r.Body)), m.last > 0, m.parts.End-m.parts.Start))
	}
	for _, s := range r.Messages {
		lines = append(lines, string(s.Of(r.Body)))
	}
	return lines
}

// Clipped returns the first message's text as used for searching, and whole, all of it.
func (r *Request) Clipped() (text, whole string) {
	return r.clipped(&r.kept[0], MaxQuery), clip(r.text(&r.kept[0]), MaxQuery)
}

// Everything returns all fields of a request.
func (r *Request) Everything() string { return fmt.Sprintf("%+v", *r) }
