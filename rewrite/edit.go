package rewrite

import (
	"bytes"
	"encoding/json"
	"iter"
)

// The names of edits in the ledger.
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

// MarshalJSON writes an edit's entry in the ledger: numbers of bytes, never the bytes
// themselves.
func (e Edit) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name     string `json:"name"`
		Offset   int    `json:"offset"` // in the body as it came
		Deleted  int    `json:"deleted"`
		Inserted int    `json:"inserted"`
	}{e.Name, e.Offset, e.Delete, len(e.Insert)})
}

// Apply appends body with its edits made to dst, in one copy. Edits are sorted by
// offset and do not overlap. Without edits it appends body as it is.
func Apply(dst, body []byte, edits []Edit) []byte {
	at := 0
	for _, e := range edits {
		dst = append(dst, body[at:e.Offset]...)
		dst = append(dst, e.Insert...)
		at = e.Offset + e.Delete
	}
	return append(dst, body[at:]...)
}

// Pieces appends to dst, in order and without copying, the pieces that Apply would
// copy. They point into body and into the edits. None is empty.
func Pieces(dst [][]byte, body []byte, edits []Edit) [][]byte {
	at := 0
	for _, e := range edits {
		dst = appendPiece(dst, body[at:e.Offset])
		dst = appendPiece(dst, e.Insert)
		at = e.Offset + e.Delete
	}
	return appendPiece(dst, body[at:])
}

func appendPiece(dst [][]byte, piece []byte) [][]byte {
	if len(piece) == 0 {
		return dst
	}
	return append(dst, piece)
}

// Marker is the text that PlaceMarker replaces by the block.
const Marker = "{{sidenote}}"

// StripEdits returns the edits that are made in every mode: the body field "sidenote"
// is removed and, under PlaceMarker, so are the markers.
func (r *Request) StripEdits(p Policy) []Edit { return r.stripEdits(p.Placement) }

func (r *Request) stripEdits(p Placement) []Edit {
	var edits []Edit
	if f := r.field.remove; f != (span{}) {
		edits = append(edits, Edit{Name: editStrip, Offset: f.start, Delete: f.end - f.start})
	}
	if p == PlaceMarker {
		for _, at := range r.markers() {
			edits = append(edits, Edit{Name: editMarker, Offset: at.start, Delete: at.end - at.start})
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

// markers returns the markers in messages of the application (system and developer),
// never those in a user's text.
func (r *Request) markers() []span {
	var found []span
	for i := range r.messages {
		m := &r.messages[i]
		if !m.role.operator() {
			continue
		}
		for text := range r.texts(m) {
			found = r.appendMarkers(found, text)
		}
	}
	return found
}

// appendMarkers appends the markers in a quoted string. It also finds markers whose
// characters are escaped by code point: no client is known to write them, but they are
// the same text.
func (r *Request) appendMarkers(found []span, text span) []span {
	for at := text.start + 1; at < text.end; {
		switch {
		case r.seen&markCode == 0:
			n := bytes.Index(r.Body[at:text.end], []byte(Marker))
			if n < 0 {
				return found
			}
			at += n
			found = append(found, span{at, at + len(Marker)})
			at += len(Marker)
		case r.markerAt(at) > 0:
			found = append(found, span{at, at + r.markerAt(at)})
			at += r.markerAt(at)
		case r.Body[at] == '\\':
			at += 2
		default:
			at++
		}
	}
	return found
}

// markerAt returns the length of the marker that begins at that offset, in which
// characters may be escaped; 0 if there is none.
func (r *Request) markerAt(at int) int {
	n := at
	for i := range len(Marker) {
		b := r.Body[n:]
		if b[0] == Marker[i] {
			n++
			continue
		}
		if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
			return 0
		}
		if c, ok := hex4(b[2:6]); !ok || c != rune(Marker[i]) {
			return 0
		}
		n += 6
	}
	return n - at
}

// texts yields the string values, quotes included, that make up a message's text.
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
