package knowledge

import (
	"cmp"
	"context"
	"slices"

	"sidenote/retrieval/knowledge/index/bm25"
)

const (
	// wholeWeight is the weight of the amount by which a document as a whole scores above its best
	// chunk, and furtherChunk the factor for the scores of further chunks of a document. With
	// wholeWeight from 0.5 to 0.8, two sets of questions to six manuals get the right document
	// more often at rank 1 and among the first six; questions to collections of short documents do
	// equally well.
	wholeWeight  = 0.6
	furtherChunk = 0.8
	// leastHits is the least number of hits that are scored like this, so that the order of the
	// first hits does not depend on how many are requested.
	leastHits = 50
)

// best returns at most k hits, best first, in room if that is large enough.
func (e extent) best(ctx context.Context, terms []bm25.Term, k int, allowed []bm25.Bitmap, room []bm25.Hit) ([]bm25.Hit, error) {
	hits, err := e.content.index.Search(ctx, terms, max(k, leastHits), allowed, room)
	if err != nil {
		return nil, err
	}
	e.weighWholes(terms, hits)
	return hits[:min(len(hits), k)], nil
}

// weighWholes raises the best hit of each document that scores higher as a whole, lowers its
// further hits, and sorts hits again. Of two chunks that answer about equally well, the one whose
// document is about the question comes first (J. P. Callan, Passage-level evidence in document
// retrieval, 1994), and each document counts once. Scores depend only on the documents of the
// hits, so no filter changes one. Documents of one chunk are unchanged.
func (e extent) weighWholes(terms []bm25.Term, hits []bm25.Hit) {
	var spans []bm25.Span
	var best []int // by span: its first hit
	for i := range hits {
		s := e.content.segments.Span(hits[i].Ref)
		switch {
		case s.End-s.First == 1:
		case slices.Contains(spans, s):
			hits[i].Score *= furtherChunk
		default:
			spans, best = append(spans, s), append(best, i)
		}
	}
	if len(spans) == 0 {
		return
	}
	for i, score := range e.content.index.Spans(terms, spans) {
		h := &hits[best[i]]
		h.Score += wholeWeight * max(0, score-h.Score)
	}
	slices.SortStableFunc(hits, func(a, b bm25.Hit) int { return cmp.Compare(b.Score, a.Score) })
}
