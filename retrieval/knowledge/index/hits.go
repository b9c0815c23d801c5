package index

import (
	"runtime"
	"sort"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
)

// Mark fills in the marks of hits, by their places.
func (s Segments) Mark(hits []retrieval.Hit) {
	for i := range hits {
		h := &hits[i]
		texts, at := &s[h.At.Segment].texts, h.At.Text
		h.Mark = retrieval.Mark{
			Glance: retrieval.GlanceAt(texts.sketch(at)), Bytes: number(texts.starts, at+1) - number(texts.starts, at),
			Sum: uint32(number(texts.sums, at)), Document: texts.document(at),
		}
	}
	runtime.KeepAlive(s)
}

// Sketch returns the term sketch of a text in s.
func Sketch(s Segments, at bm25.Ref) retrieval.Sketch {
	read, _ := retrieval.ReadSketch(s[at.Segment].texts.sketch(at.Text))
	runtime.KeepAlive(s)
	return read
}

// Label returns the label of a text. Its bytes are those of the image: they are valid as long as
// the caller keeps the Segments alive.
func (s Segments) Label(at bm25.Ref) retrieval.Label {
	texts := &s[at.Segment].texts
	return texts.label(at.Text, texts.document(at.Text))
}

// Labels calls add with the label of each marked hit, in order.
func (s Segments) Labels(hits []*retrieval.Hit, add func(retrieval.Label)) {
	for _, h := range hits {
		add(s[h.At.Segment].texts.label(h.At.Text, h.Document))
	}
	runtime.KeepAlive(s)
}

// label returns the label of text t of a document.
func (x *texts) label(t, document int) retrieval.Label {
	return retrieval.Label{Doc: x.id(document), Chunk: t - x.first(document), Name: x.name(document), Section: x.section(t)}
}

// Find returns the text with the given document id and chunk; false if it is not in the base. It
// tries hint first, which may be invalid.
func (s Segments) Find(id string, chunk int, hint bm25.Ref) (bm25.Ref, bool) {
	defer runtime.KeepAlive(s)
	if hint.Segment >= 0 && hint.Segment < len(s) {
		if texts := &s[hint.Segment].texts; hint.Text >= 0 && hint.Text < texts.count {
			d := texts.document(hint.Text)
			if string(texts.id(d)) == id && hint.Text-texts.first(d) == chunk && !s[hint.Segment].Gone.Has(d) {
				return hint, true
			}
		}
	}
	for i := range s {
		texts := &s[i].texts
		d, ok := texts.find(id)
		if ok && !s[i].Gone.Has(d) && chunk >= 0 && chunk < texts.first(d+1)-texts.first(d) {
			return bm25.Ref{Segment: i, Text: texts.first(d) + chunk}, true
		}
	}
	return bm25.Ref{}, false
}

// find returns the document with an id.
func (x *texts) find(id string) (d int, ok bool) {
	d = sort.Search(x.documents, func(d int) bool { return string(x.id(d)) >= id })
	return d, d < x.documents && string(x.id(d)) == id
}
