package index

import (
	"cmp"
	"slices"

	"sidenote/retrieval/knowledge/index/bm25"
)

// A Joint is the segments of several bases in one list, to be searched as one base.
type Joint struct {
	Segments
	base []int // by segment: the number of its base
}

// Join returns the segments of bases, in their order.
func Join(bases ...Segments) Joint {
	j := Joint{Segments: slices.Concat(bases...)}
	for i, segments := range bases {
		j.base = append(j.base, slices.Repeat([]int{i}, len(segments))...)
	}
	return j
}

// Base returns the number of the base that a text is in.
func (j Joint) Base(ref bm25.Ref) int { return j.base[ref.Segment] }

// Index returns the index to search in. Its statistics are of all bases, and scores are
// those of one base that has all their documents. Equal scores stand in the order of the
// bases, those of one base in its own order.
func (j Joint) Index() *bm25.Index { return bm25.NewIndex(livePostings(j.Segments), j.compare) }

func (j Joint) compare(a, b bm25.Ref) int {
	if c := cmp.Compare(j.Base(a), j.Base(b)); c != 0 {
		return c
	}
	return j.Segments.compare(a, b)
}
