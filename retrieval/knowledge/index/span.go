package index

import (
	"runtime"

	"sidenote/retrieval/knowledge/index/bm25"
)

// Span returns the texts of the document that contains a text.
func (s Segments) Span(ref bm25.Ref) bm25.Span {
	texts := &s[ref.Segment].texts
	d := texts.document(ref.Text)
	span := bm25.Span{Segment: ref.Segment, First: texts.first(d), End: texts.first(d + 1)}
	runtime.KeepAlive(s)
	return span
}
