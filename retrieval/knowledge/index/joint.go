package index

import (
	"cmp"
	"slices"

	"sidenote/retrieval/knowledge/index/bm25"
)

// A Joint is the segments of several bases, searched as one base.
type Joint struct {
	Segments
	base []int // number of the base, by segment
}

// Join returns the segments of bases, in their order.
func Join(bases ...Segments) Joint {
	j := Joint{Segments: slices.Concat(bases...)}
	for i, segments := range bases {
		j.base = append(j.base, slices.Repeat([]int{i}, len(segments))...)
	}
	return j
}

// Base returns the number of the base that contains a text.
func (j Joint) Base(ref bm25.Ref) int { return j.base[ref.Segment] }

// Index returns the search index. Its statistics cover all bases; scores are those of a single
// base with all their documents. Equal scores are in the order of the bases, and within a base in
// its own order.
func (j Joint) Index() *bm25.Index { return bm25.NewIndex(livePostings(j.Segments), j.compare) }

func (j Joint) compare(a, b bm25.Ref) int {
	if c := cmp.Compare(j.Base(a), j.Base(b)); c != 0 {
		return c
	}
	return j.Segments.compare(a, b)
}
