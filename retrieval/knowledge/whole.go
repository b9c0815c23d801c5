package knowledge

import (
	"cmp"
	"context"
	"slices"

	"sidenote/retrieval/knowledge/index/bm25"
)

const (
	// wholeWeight is what a document weighs that as a whole has more of a question than its
	// best chunk, and furtherChunk what the score of a further chunk of a document weighs. With
	// wholeWeight from 0.5 to 0.8 two sets of questions to six manuals get the right document
	// first, and among six, more often, and questions to collections of short documents as often.
	wholeWeight  = 0.6
	furtherChunk = 0.8
	// leastHits is how many hits are scored so at least, so that the first of few are the first
	// of many.
	leastHits = 50
)

// best returns the at most k best hits, best first, in room if that is enough.
func (e extent) best(ctx context.Context, terms []bm25.Term, k int, allowed []bm25.Bitmap, room []bm25.Hit) ([]bm25.Hit, error) {
	hits, err := e.content.index.Search(ctx, terms, max(k, leastHits), allowed, room)
	if err != nil {
		return nil, err
	}
	e.weighWholes(terms, hits)
	return hits[:min(len(hits), k)], nil
}

// weighWholes raises the best hit of each document that has more of the question as a whole,
// lowers the further ones, and sorts hits anew: of two chunks that answer about as well that
// one comes first whose document is about the question (J. P. Callan, Passage-level evidence
// in document retrieval, 1994), and a document counts once. Scores depend on nothing but the
// documents of hits: no filter changes one. Those of documents of one chunk stay.
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
