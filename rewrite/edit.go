package rewrite

import (
	"sidenote/rewrite/chat"
	"sidenote/rewrite/edit"
)

// The names of edits in the ledger.
const (
	editInject = "inject"
	editStrip  = "strip-field"
	editMarker = "marker"
	editChunks = "chunks"
)

// An Edit is one of a body.
type Edit = edit.Edit

// Apply makes edits; see edit.Apply.
func Apply(dst, body []byte, edits []Edit) []byte { return edit.Apply(dst, body, edits) }

// Pieces makes them without copying; see edit.Pieces.
func Pieces(dst [][]byte, body []byte, edits []Edit) [][]byte { return edit.Pieces(dst, body, edits) }

// StripEdits returns the edits that are made in every mode: the body field "sidenote"
// is removed and, under PlaceMarker, so are the markers.
func StripEdits(r *Request, p Placement) []Edit {
	var edits []Edit
	if f := r.Field.Remove; f != (chat.Span{}) {
		edits = append(edits, Edit{Name: editStrip, Offset: f.Start, Delete: f.End - f.Start})
	}
	if p == PlaceMarker {
		for _, at := range r.Markers() {
			edits = append(edits, Edit{Name: editMarker, Offset: at.Start, Delete: at.End - at.Start})
		}
	}
	return edit.Sort(edits)
}
