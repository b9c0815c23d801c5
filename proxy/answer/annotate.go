package answer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"sidenote/proxy/panics"
)

// appendAnnotations appends annotations without the enclosing brackets.
func (c *CitationChecker) appendAnnotations(dst []byte, list []annotation) []byte {
	for i, a := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.format.appendAnnotation(dst, a, c.sources[a.id])
	}
	return dst
}

// appendCitation appends the members of an annotation that all APIs share.
func appendCitation(dst []byte, a annotation, s CitedSource) []byte {
	dst = strconv.AppendInt(append(dst, `"start_index":`...), int64(a.start), 10)
	dst = strconv.AppendInt(append(dst, `,"end_index":`...), int64(a.end), 10)
	dst = append(appendText(append(dst, `,"title":`...), s.Title), `,"url":`...)
	return appendText(dst, s.URL)
}

// appendText appends s as a JSON string.
func appendText(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// MaxCitedJSON is the size in bytes of the largest answer that JSON reads.
const MaxCitedJSON = 1 << 20

// An edit replaces the bytes from..to of an event, or of a whole answer, with text.
type edit struct {
	event, from, to int
	text            []byte
}

// JSON checks the citations of a non-streamed answer and returns it with annotations added and,
// with RemoveUnknown, unknown markers removed. All other bytes stay the same; body itself is not
// changed.
func (c *CitationChecker) JSON(body []byte) (checked []byte) {
	checked = body
	defer panics.Recover(c.options.Panicked, c.bug)
	if len(body) > MaxCitedJSON {
		c.Skip(UnreadTooLarge)
		return body
	}
	parts, ok := c.format.whole(body)
	if !ok {
		c.Skip(UnreadShape)
		return body
	}
	for _, p := range parts {
		t := c.textOf(p.number)
		if t == nil || len(p.content) == 0 {
			continue
		}
		for _, content := range p.content {
			t.feed(content.Of(body), 0, content.Start)
		}
		t.finish()
		if len(t.added) > 0 {
			c.report.Annotations += len(t.added)
			c.edits = append(c.edits, c.join(p, body, t.added))
			t.added = nil
		}
	}
	checked = apply(body, c.edits)
	c.edits = c.edits[:0]
	return checked
}

// join returns the edit that adds annotations to the object around a text.
func (c *CitationChecker) join(p citationPart, body []byte, list []annotation) edit {
	there := p.annotations.Of(body)
	if len(there) == 0 {
		text := append(c.appendAnnotations([]byte(`,"`+c.format.list()+`":[`), list), ']')
		return edit{from: p.message.End - 1, to: p.message.End - 1, text: text} // the object has a text, so a comma is needed
	}
	if there[0] != '[' { // null
		return edit{from: p.annotations.Start, to: p.annotations.End, text: append(c.appendAnnotations([]byte{'['}, list), ']')}
	}
	var text []byte
	if len(bytes.TrimSpace(there[1:len(there)-1])) > 0 {
		text = []byte{','}
	}
	return edit{from: p.annotations.End - 1, to: p.annotations.End - 1, text: c.appendAnnotations(text, list)}
}

// apply applies edits to a copy of body and skips those that overlap an earlier one.
func apply(body []byte, edits []edit) []byte {
	if len(edits) == 0 {
		return body
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	out, from := make([]byte, 0, len(body)+512*len(edits)), 0
	for _, e := range edits {
		if e.from < from { // several bytes of the same escape
			continue
		}
		out = append(append(out, body[from:e.from]...), e.text...)
		from = e.to
	}
	return append(out, body[from:]...)
}
