package rewrite

import (
	"encoding/json"
	"slices"

	"sidenote/rewrite/chat"
)

// The names of edits in the ledger.
const (
	editInject = "inject"
	editStrip  = "strip-field"
	editMarker = "marker"
	editChunks = "chunks"
)

// An Edit replaces Body[Offset:Offset+Delete] by Insert.
type Edit struct {
	Name   string // inject, strip-field, marker, chunks, include-usage, max-tokens
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
	var pieces [8][]byte
	for _, piece := range Pieces(pieces[:0], body, edits) {
		dst = append(dst, piece...)
	}
	return dst
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

// StripEdits returns the edits that are made in every mode: the body field "sidenote"
// is removed and, under PlaceMarker, so are the markers.
func StripEdits(r *Request, p Policy) []Edit {
	var edits []Edit
	if f := r.Field.Remove; f != (chat.Span{}) {
		edits = append(edits, Edit{Name: editStrip, Offset: f.Start, Delete: f.End - f.Start})
	}
	if p.Placement == PlaceMarker {
		for _, at := range r.Markers() {
			edits = append(edits, Edit{Name: editMarker, Offset: at.Start, Delete: at.End - at.Start})
		}
	}
	return sorted(edits)
}

// sorted orders the edits of a request by offset.
func sorted(edits []Edit) []Edit {
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Offset - b.Offset })
	return edits
}
