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
	Gone      bm25.Bitmap // documents no longer in the base; nil if there are none
	Postings  *bm25.Live
	Documents int   // number of documents in the base
	Bytes     int64 // length of their texts

	Vectors *Vectors    // of its texts; may be nil
	Dense   *dense.Live // of its live texts; may be nil
}

// Without returns the segment without the documents in gone. before, unless nil, is an earlier
// result for this segment: it is returned again if gone is the same, so that Postings are counted
// once.
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

// Segments are the segments of a base. A bm25.Ref and a DocumentRef refer to segments by their
// index in this slice.
type Segments []Live

// Take opens the image of a segment on the heap and appends the segment. It can be used as
// Writer.Emit if no files are written.
func (s *Segments) Take(image []byte, _ []int64) error {
	segment, err := Open("", image, nil)
	if err == nil {
		*s = append(*s, segment.Without(nil, nil))
	}
	return err
}

// A DocumentRef identifies a document: the number of its segment, and its number there.
type DocumentRef struct{ segment, document int }

// Index returns the search index.
func (s Segments) Index() *bm25.Index { return bm25.NewIndex(livePostings(s), s.compare) }

func livePostings(s Segments) []*bm25.Live {
	live := make([]*bm25.Live, len(s))
	for i := range s {
		live[i] = s[i].Postings
	}
	return live
}

// compare orders the texts of segments by document id, then by position. If several segments have
// versions of a document, only one is live, but the dead ones must have an order, too.
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

// InOrder yields the documents in the base, sorted by id.
func (s Segments) InOrder() iter.Seq[DocumentRef] {
	return func(yield func(DocumentRef) bool) {
		next := make([]int, len(s)) // next document of each segment
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

// Texts yields the texts of a document.
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

// Source returns a text as a retrieval.Source, without base and score.
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

// Around returns a text with the previous and the next one in its document; "" if there is none.
func (s Segments) Around(ref bm25.Ref) (before, text, after string, err error) {
	seg := s[ref.Segment].Segment
	d := seg.texts.document(ref.Text)
	before, text, after, err = seg.around(ref.Text, seg.texts.first(d), seg.texts.first(d+1))
	runtime.KeepAlive(s)
	return before, text, after, err
}

// Tokens returns the token count of a text by a counter, see chunk.CounterName; 0 if unknown.
func (s Segments) Tokens(ref bm25.Ref, counter string) int {
	n := s[ref.Segment].texts.tokens(ref.Text, counter)
	runtime.KeepAlive(s)
	return n
}

// A Held is the data of one document in segments.
type Held struct {
	ID, Name string
	Chunks   int
	Bytes    int // length of their texts
	// Attributes are strings, float64s, bools and lists of strings; nil if there are none or they
	// are damaged. Documents may share the map: it must not be modified.
	Attributes map[string]any
}

// Held returns the data of a document.
func (s Segments) Held(d DocumentRef) Held {
	seg := s[d.segment]
	first, end := seg.texts.first(d.document), seg.texts.first(d.document+1)
	h := Held{Chunks: end - first, Bytes: int(seg.weight(d.document))}
	h.ID, h.Name = seg.labels(d.document)
	h.Attributes, _ = seg.attributes(d.document)
	return h
}

// Lookup returns the data of the document with an id; false if it is not in the base.
func Lookup(s Segments, id string) (Held, bool) {
	for i := range s {
		if d, ok := s[i].texts.find(id); ok && !s[i].Gone.Has(d) {
			return s.Held(DocumentRef{i, d}), true
		}
	}
	return Held{}, false
}

// Fault returns a DamageError if err is a fault in a mapped segment file, for example because it
// was truncated; otherwise nil.
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
