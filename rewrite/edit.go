package rewrite

import (
	"sidenote/rewrite/chat"
)

// The names of edits in the ledger.
const (
	editInject = "inject"
	editStrip  = "strip-field"
	editMarker = "marker"
	editChunks = "chunks"
)

// StripEdits returns the edits that every mode needs: they remove the body field "sidenote" and,
// under PlaceMarker, the markers.
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
	return SortEdits(edits)
}
