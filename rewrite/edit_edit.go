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

// An EditText is a text in pieces. Neither the pieces nor the slice change once made, so cached
// pieces can be shared by several EditTexts.
type EditText [][]byte

// Len returns the length in bytes.
func (t EditText) Len() (n int) {
	for _, piece := range t {
		n += len(piece)
	}
	return n
}

// Append appends the text to dst.
func (t EditText) Append(dst []byte) []byte {
	for _, piece := range t {
		dst = append(dst, piece...)
	}
	return dst
}

// MarshalJSON writes the edit as it appears in the ledger: byte counts, never the bytes
// themselves.
func (e Edit) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name     string `json:"name"`
		Offset   int    `json:"offset"` // in the original body
		Deleted  int    `json:"deleted"`
		Inserted int    `json:"inserted"`
	}{e.Name, e.Offset, e.Delete, e.Insert.Len()})
}

// ApplyEdits appends body, with its edits applied, to dst in one copy. Edits must be sorted by
// offset and must not overlap.
func ApplyEdits(dst, body []byte, edits []Edit) []byte {
	var pieces [16][]byte
	return EditText(EditPieces(pieces[:0], body, edits)).Append(dst)
}

// EditPieces appends to dst the non-empty pieces of the edited body, in order, without copying
// bytes. The pieces point into body and into the edits.
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

// SortEdits sorts edits by offset, in place, and returns them.
func SortEdits(edits []Edit) []Edit {
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Offset - b.Offset })
	return edits
}
