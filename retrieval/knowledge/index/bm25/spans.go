package bm25

import (
	"cmp"
	"math"
	"runtime"
	"slices"
)

// A Span is a range of texts of a segment, such as those of one document, from First to End
// (exclusive).
type Span struct {
	Segment, First, End int
	// Texts and Lengths, in a part, are the number and the total length of the texts of the document,
	// of which the range may hold only some; 0: it holds all.
	Texts   int
	Lengths uint64
}

// Len returns the number of texts of the document.
func (s *Span) Len() int {
	if s.Texts > 0 {
		return s.Texts
	}
	return s.End - s.First
}

// spanNorm returns the norm of a text of the average length of a span.
func (x *Index) spanNorm(s *Span) float32 {
	n := float64(s.Len())
	if s.Texts > 0 {
		return float32(k1 * (1 - b + b*float64(s.Lengths)/n/max(1, x.average)))
	}
	sum := 0.0
	for _, norm := range x.views[s.Segment].norms[s.First:s.End] {
		sum += float64(norm) // norms are linear in length
	}
	return float32(sum / n)
}

// scope is how much the length of a span reduces its score. A term with frequency f in its n texts
// counts as if one text had it f/n^scope times. At 1 a long document is judged by its average
// text, as if it only used more words for the same content; at 0 by all that it covers. Documents
// do both (Robertson and Walker, Some simple effective approximations to the 2-Poisson model,
// 1994).
const scope = 0.7

// Spans returns the scores of spans: that of a text of average length with the combined terms of
// the span, see scope. A span has at least one text; the score of a single text is that of Search.
// All texts must be live.
func (x *Index) Spans(terms []Term, spans []Span) []float64 {
	defer runtime.KeepAlive(x)
	asked := make([]span, len(spans))
	for i, s := range spans {
		asked[i] = span{Span: s, place: i, norm: x.spanNorm(&s), share: float32(math.Pow(float64(s.Len()), -scope))}
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

// A span is a Span that is being scored.
type span struct {
	Span
	place int     // index in the given spans
	norm  float32 // of a text of average length
	share float32 // the factor of frequencies
	sum   int64
}

// addTo adds the contribution of a term to spans, which must be sorted.
func addTo(x *Index, spans []span, t weightedTerm) {
	segment, left := -1, []posting(nil)
	for i := range spans {
		s := &spans[i]
		if s.Segment != segment {
			segment, left = s.Segment, nil
			if t.in[segment].texts > 0 {
				left = t.postings(x, segment)
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
