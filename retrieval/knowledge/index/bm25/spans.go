package bm25

import (
	"cmp"
	"math"
	"runtime"
	"slices"
)

// A Span is texts of a segment that follow one another, such as those of one document: from
// First on, up to but not including End.
type Span struct{ Segment, First, End int }

// scope is how far the length of a span speaks against it. A term that its n texts have f
// times counts as if one text had it f/n^scope times: at 1 a long document is judged by its
// average text, as if it only used more words for the same, and at 0 by all that it covers.
// Documents do both (Robertson and Walker, Some simple effective approximations to the
// 2-Poisson model, 1994).
const scope = 0.7

// Spans returns by span what its texts together have of terms: the score of a text of their
// average length, see scope. It is at least one text, and that of one text is the score that
// Search gives. All texts must be live.
func (x *Index) Spans(terms []Term, spans []Span) []float64 {
	defer runtime.KeepAlive(x)
	asked := make([]span, len(spans))
	for i, s := range spans {
		sum, n := 0.0, float64(s.End-s.First)
		for _, norm := range x.views[s.Segment].norms[s.First:s.End] {
			sum += float64(norm) // norms are linear in length
		}
		asked[i] = span{Span: s, place: i, norm: float32(sum / n), share: float32(math.Pow(n, -scope))}
	}
	slices.SortFunc(asked, func(a, b span) int { return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.First, b.First)) })
	for _, t := range x.weigh(terms, nil, nil) {
		addTo(x, asked, t)
	}
	scores := make([]float64, len(spans))
	for _, s := range asked {
		scores[s.place] = float64(s.sum) / unit
	}
	return scores
}

// A span is one that is being scored.
type span struct {
	Span
	place int     // among those that were given
	norm  float32 // of a text of average length
	share float32 // of a frequency that counts
	sum   int64
}

// addTo adds what spans have of a term. They must be in order.
func addTo(x *Index, spans []span, t weightedTerm) {
	segment, left := -1, []posting(nil)
	for i := range spans {
		s := &spans[i]
		if s.Segment != segment {
			segment, left = s.Segment, nil
			if in := t.in[segment]; in.texts > 0 {
				left = x.views[segment].segment.of(in.id)
			}
		}
		left = left[seek(left, uint32(s.First)):]
		freq := float32(0)
		for len(left) > 0 && left[0].text() < uint32(s.End) {
			freq += left[0].freq()
			left = left[1:]
		}
		if freq > 0 {
			s.sum += int64(t.factor * impact(freq*s.share, s.norm))
		}
	}
}
