package index

import (
	"runtime"
	"sort"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/sketch"
)

// Identify fills in what texts are found by again, by their places: the id of the document of
// each, and its place there.
func (s Segments) Identify(to []retrieval.Source) {
	var room [copied]byte
	var lengths [copied / 16]int
	ids, ends := room[:0], lengths[:0]
	for i := range to {
		texts, at := &s[to[i].At.Segment].texts, to[i].At.Text
		d := texts.document(at)
		ids = append(ids, texts.id(d)...)
		ends = append(ends, len(ids))
		to[i].Chunk = at - texts.first(d)
	}
	all, from := string(ids), 0
	for i, end := range ends {
		to[i].Doc, from = all[from:end], end
	}
	runtime.KeepAlive(s)
}

// copied is the size of a buffer on the stack for texts that are copied out of an image as one:
// most of what a search costs beyond the index is memory.
const copied = 2 << 10

// Mark returns what tells a text from others without being read.
func (s Segments) Mark(ref bm25.Ref) retrieval.Mark {
	texts := &s[ref.Segment].texts
	m := retrieval.Mark{Bytes: number(texts.starts, ref.Text+1) - number(texts.starts, ref.Text), Sum: uint32(number(texts.sums, ref.Text))}
	m.Sketch, _ = sketch.Read(texts.sketch(ref.Text))
	runtime.KeepAlive(s)
	return m
}

// Names calls add with the name of the document of each hit and its section, by their places. The
// bytes are those of the image.
func (s Segments) Names(hits []*retrieval.Source, add func(name, section []byte)) {
	for _, hit := range hits {
		texts := &s[hit.At.Segment].texts
		add(texts.name(texts.document(hit.At.Text)), texts.section(hit.At.Text))
	}
	runtime.KeepAlive(s)
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
