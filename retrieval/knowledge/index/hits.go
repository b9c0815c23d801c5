package index

import (
	"runtime"
	"sort"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
)

// Hit returns what a text is found by again: the id of its document, and its place there.
func (s Segments) Hit(ref bm25.Ref) (id string, chunk int) {
	texts := &s[ref.Segment].texts
	d := texts.document(ref.Text)
	id, chunk = string(texts.id(d)), ref.Text-texts.first(d)
	runtime.KeepAlive(s)
	return id, chunk
}

// Mark returns what tells a text from others without being read.
func (s Segments) Mark(ref bm25.Ref) retrieval.Mark {
	texts := &s[ref.Segment].texts
	m := retrieval.Mark{Bytes: number(texts.starts, ref.Text+1) - number(texts.starts, ref.Text), Sum: uint32(number(texts.sums, ref.Text))}
	m.Sketch, _ = retrieval.ReadSketch(texts.sketch(ref.Text))
	runtime.KeepAlive(s)
	return m
}

// Label returns the names of the document and of the section that a text is in.
func (s Segments) Label(ref bm25.Ref) (name, section string) {
	texts := &s[ref.Segment].texts
	name, section = string(texts.name(texts.document(ref.Text))), string(texts.section(ref.Text))
	runtime.KeepAlive(s)
	return name, section
}

// Find returns a text that is in the base by what Hit returned of it; false if there is none.
// It looks at hint first, which may be any number.
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

// find returns the document of an id.
func (x *texts) find(id string) (d int, ok bool) {
	d = sort.Search(x.documents, func(d int) bool { return string(x.id(d)) >= id })
	return d, d < x.documents && string(x.id(d)) == id
}
