package index

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// A Live is a segment without the documents that are no longer in the base.
type Live struct {
	*Segment
	Gone      bm25.Bitmap // documents that are no longer in the base; nil if all are there
	Postings  *bm25.Live
	Documents int   // that are in the base
	Bytes     int64 // of their texts

	Vectors *Vectors    // of its texts; nil for none
	Dense   *dense.Live // likewise
}

// Without returns the segment without the documents that are gone. before, unless nil, is
// the result of an earlier call for this segment: it is returned again if the same
// documents are gone, so that Postings are counted once.
func (s *Segment) Without(gone bm25.Bitmap, before *Live) Live {
	if before != nil && slices.Equal(before.Gone, gone) {
		return *before
	}
	l := Live{Segment: s, Gone: gone, Documents: s.texts.documents, Bytes: int64(len(s.texts.bodies))}
	for d := range s.texts.documents {
		if gone.Has(d) {
			l.Documents--
			l.Bytes -= s.weight(d)
		}
	}
	l.Postings = s.postings.Live(s.deadTexts(gone))
	runtime.KeepAlive(s)
	return l
}

// Segments are what a base is searched in. A bm25.Ref and a DocumentRef number them in
// this order.
type Segments []Live

// Take opens the image of a segment, which stays on the heap, and adds it: it is the Emit of
// a Writer that writes no files.
func (s *Segments) Take(image []byte, _ []int64) error {
	segment, err := Open("", image, nil)
	if err == nil {
		*s = append(*s, segment.Without(nil, nil))
	}
	return err
}

// A DocumentRef is a document: the number of its segment, and its number there.
type DocumentRef struct{ segment, document int }

// Index returns the index to search in.
func (s Segments) Index() *bm25.Index { return bm25.NewIndex(livePostings(s), s.compare) }

func livePostings(s Segments) []*bm25.Live {
	live := make([]*bm25.Live, len(s))
	for i := range s {
		live[i] = s[i].Postings
	}
	return live
}

// compare orders the texts of segments by document id, then by place. Where a document
// has another version in another segment only one is alive, but the dead must have an
// order, too.
func (s Segments) compare(a, b bm25.Ref) int {
	if a.Segment == b.Segment {
		return cmp.Compare(a.Text, b.Text)
	}
	x, y := &s[a.Segment].texts, &s[b.Segment].texts
	dx, dy := x.document(a.Text), y.document(b.Text)
	if c := bytes.Compare(x.id(dx), y.id(dy)); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Text-x.first(dx), b.Text-y.first(dy)); c != 0 {
		return c
	}
	return cmp.Compare(a.Segment, b.Segment)
}

// InOrder goes through the documents that are in the base, by id.
func (s Segments) InOrder() iter.Seq[DocumentRef] {
	return func(yield func(DocumentRef) bool) {
		next := make([]int, len(s)) // document of each segment
		for {
			best := -1
			for i := range s {
				seg := &s[i]
				for next[i] < seg.texts.documents && seg.Gone.Has(next[i]) {
					next[i]++
				}
				if next[i] < seg.texts.documents && (best < 0 || bytes.Compare(seg.texts.id(next[i]), s[best].texts.id(next[best])) < 0) {
					best = i
				}
			}
			if best < 0 || !yield(DocumentRef{best, next[best]}) {
				runtime.KeepAlive(s)
				return
			}
			next[best]++
		}
	}
}

// Texts goes through the texts of a document.
func (s Segments) Texts(d DocumentRef) iter.Seq[bm25.Ref] {
	return func(yield func(bm25.Ref) bool) {
		texts := &s[d.segment].texts
		for t := texts.first(d.document); t < texts.first(d.document+1); t++ {
			if !yield(bm25.Ref{Segment: d.segment, Text: t}) {
				return
			}
		}
	}
}

// Source returns a text in the words of retrieval, without base and score.
func (s Segments) Source(ref bm25.Ref) (retrieval.Source, error) {
	seg := s[ref.Segment].Segment
	texts := &seg.texts
	d := texts.document(ref.Text)
	first, end := texts.first(d), texts.first(d+1)
	out := retrieval.Source{Type: "rag", Chunk: ref.Text - first, Section: string(texts.section(ref.Text))}
	out.Doc, out.Name = seg.labels(d)
	var err error
	out.Before, out.Text, out.After, err = seg.around(ref.Text, first, end)
	out.Sketch = string(texts.sketch(ref.Text))
	runtime.KeepAlive(s)
	return out, err
}

// Around returns a text and those before and after it in its document, "" where there is none.
func (s Segments) Around(ref bm25.Ref) (before, text, after string, err error) {
	seg := s[ref.Segment].Segment
	d := seg.texts.document(ref.Text)
	before, text, after, err = seg.around(ref.Text, seg.texts.first(d), seg.texts.first(d+1))
	runtime.KeepAlive(s)
	return before, text, after, err
}

// Tokens returns what a counter, see chunk.CounterName, counted of a text; 0 if it did not.
func (s Segments) Tokens(ref bm25.Ref, counter string) int {
	n := s[ref.Segment].texts.tokens(ref.Text, counter)
	runtime.KeepAlive(s)
	return n
}

// A Held is what segments hold of one document.
type Held struct {
	ID, Name string
	Chunks   int
	Bytes    int // of their texts
	// Attributes are strings, float64s, bools and lists of strings, nil if there are
	// none or where they are damaged. Documents may share them: nobody changes them.
	Attributes map[string]any
}

// Held returns what is held of a document.
func (s Segments) Held(d DocumentRef) Held {
	seg := s[d.segment]
	first, end := seg.texts.first(d.document), seg.texts.first(d.document+1)
	h := Held{Chunks: end - first, Bytes: int(seg.weight(d.document))}
	h.ID, h.Name = seg.labels(d.document)
	h.Attributes, _ = seg.attributes(d.document)
	return h
}

// Lookup returns what is held of the document of an id; false if it is not in the base.
func Lookup(s Segments, id string) (Held, bool) {
	for i := range s {
		if d, ok := s[i].texts.find(id); ok && !s[i].Gone.Has(d) {
			return s.Held(DocumentRef{i, d}), true
		}
	}
	return Held{}, false
}

// Fault returns the damage that an error tells of which came of reading a mapped file, as
// where it was cut meanwhile; nil if it is about something else.
func (s Segments) Fault(err error) error {
	fault := (*bm25.MappedFaultError)(nil)
	if !errors.As(err, &fault) {
		return nil
	}
	for _, seg := range s {
		if seg.owner != nil && seg.owner.Holds(fault.Address) {
			return &DamageError{Segment: seg.Segment, err: fmt.Errorf("%w: %w", ErrDamaged, err)}
		}
		if v := seg.Vectors; v != nil && v.owner != nil && v.owner.Holds(fault.Address) {
			return &DamageError{Segment: seg.Segment, Vectors: v, err: fmt.Errorf("%w: %w", ErrDamaged, err)}
		}
	}
	return nil
}
