package rewrite

import (
	"encoding/json"
	"slices"
)

// An Edit replaces Body[Offset:Offset+Delete] by Insert.
type Edit struct {
	Name   string // inject, strip-field, marker, chunks, include-usage, max-tokens, tools, tool-history
	Offset int
	Delete int
	Insert EditText
}

// An EditText is what its pieces are together. Neither they nor their list change once it is made:
// what is remembered is not copied into each EditText that it is part of.
type EditText [][]byte

// Len returns its bytes.
func (t EditText) Len() (n int) {
	for _, piece := range t {
		n += len(piece)
	}
	return n
}

// Append appends it to dst.
func (t EditText) Append(dst []byte) []byte {
	for _, piece := range t {
		dst = append(dst, piece...)
	}
	return dst
}

// MarshalJSON writes an edit's entry in the ledger: numbers of bytes, never the bytes
// themselves.
func (e Edit) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name     string `json:"name"`
		Offset   int    `json:"offset"` // in the body as it came
		Deleted  int    `json:"deleted"`
		Inserted int    `json:"inserted"`
	}{e.Name, e.Offset, e.Delete, e.Insert.Len()})
}

// ApplyEdits appends body with its edits made to dst, in one copy. Edits are sorted by
// offset and do not overlap. Without edits it appends body as it is.
func ApplyEdits(dst, body []byte, edits []Edit) []byte {
	var pieces [16][]byte
	return EditText(EditPieces(pieces[:0], body, edits)).Append(dst)
}

// EditPieces appends to dst, in order and without copying, the pieces that Apply would
// copy. They point into body and into the edits. None is empty.
func EditPieces(dst [][]byte, body []byte, edits []Edit) [][]byte {
	at := 0
	for _, e := range edits {
		dst = appendPiece(dst, body[at:e.Offset])
		for _, piece := range e.Insert {
			dst = appendPiece(dst, piece)
		}
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

// SortEdits orders the edits of a body by offset.
func SortEdits(edits []Edit) []Edit {
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Offset - b.Offset })
	return edits
}
