package rewrite

import (
	"bytes"
	"iter"
)

// The names of edits, as they stand in the ledger.
const (
	editInject = "inject"
	editStrip  = "strip-field"
	editMarker = "marker"
)

// An Edit replaces Body[Offset:Offset+Delete] by Insert.
type Edit struct {
	Name   string // inject, strip-field, marker
	Offset int
	Delete int
	Insert []byte
}

// Apply returns dst with body and its edits appended, in one copy. Edits are
// sorted by offset and do not overlap. No edits: body's own bytes.
func Apply(dst, body []byte, edits []Edit) []byte {
	at := 0
	for _, e := range edits {
		dst = append(dst, body[at:e.Offset]...)
		dst = append(dst, e.Insert...)
		at = e.Offset + e.Delete
	}
	return append(dst, body[at:]...)
}

// Size returns the length of what Apply makes of a body of n bytes.
func Size(n int, edits []Edit) int {
	for _, e := range edits {
		n += len(e.Insert) - e.Delete
	}
	return n
}

// Marker is the text that PlaceMarker replaces by the block.
const Marker = "{{sidenote}}"

// StripEdits are the edits that every mode makes: the body field is removed,
// and under PlaceMarker the markers are.
func (r *Request) StripEdits(p Policy) []Edit {
	var edits []Edit
	if f := r.field.remove; f != (span{}) {
		edits = append(edits, Edit{Name: editStrip, Offset: f.start, Delete: f.end - f.start})
	}
	if p.Placement == PlaceMarker {
		for _, at := range r.markers() {
			edits = append(edits, Edit{Name: editMarker, Offset: at, Delete: len(Marker)})
		}
	}
	return sorted(edits)
}

// sorted orders the few edits of a request by offset.
func sorted(edits []Edit) []Edit {
	for i := range edits {
		for j := i; j > 0 && edits[j].Offset < edits[j-1].Offset; j-- {
			edits[j], edits[j-1] = edits[j-1], edits[j]
		}
	}
	return edits
}

// markers returns the offsets of all markers in what the application says for
// itself, never in a user's text.
func (r *Request) markers() []int {
	var at []int
	for i := range r.messages {
		m := &r.messages[i]
		if !m.role.operator() {
			continue
		}
		for text := range r.texts(m) {
			for from := text.start; ; {
				n := bytes.Index(r.Body[from:text.end], []byte(Marker))
				if n < 0 {
					break
				}
				at = append(at, from+n)
				from += n + len(Marker)
			}
		}
	}
	return at
}

// texts goes through the string values, quotes included, that make up a
// message's text.
func (r *Request) texts(m *message) iter.Seq[span] {
	return func(yield func(span) bool) {
		if m.kind == kindString {
			yield(m.content)
			return
		}
		for _, p := range r.parts[m.parts.start:m.parts.end] {
			if !yield(p) {
				return
			}
		}
	}
}
