package knowledge

import (
	"cmp"
	"math"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// A fusedHit is a text that was found by words, by vector or by both.
type fusedHit struct {
	bm25.Ref
	score  float64 // fused
	words  float64 // BM25 score; 0 if it was not found by words
	cosine float64 // 0 if it has no vector
	weight float64 // of the cosine
	rank   int     // rank by vector, from 1; 0 if it was not found by vector

	byWords, byCosine float64 // the parts of score
}

// arm returns the arm that contributes most to the score.
func (h *fusedHit) arm() retrieval.Arm {
	if h.byCosine > h.byWords {
		return retrieval.ArmVector
	}
	return retrieval.ArmWords
}

const (
	// armDepth is how many candidates of each arm the score distributions are computed from, and
	// the least number that are fused.
	armDepth = 100
	// fusedUnit is the unit that fused scores are rounded to, so that they take less space in
	// caches.
	fusedUnit = 1.0 / (1 << 20)
)

// merge combines the hits by words and by vector into one list: first those by words, in their
// order. cosine returns the cosine of a text, 0 if it has no vector.
func merge(words []bm25.Hit, vectors []dense.Hit, cosine func(bm25.Ref) (float64, error)) ([]fusedHit, error) {
	at := make(map[bm25.Ref]int, len(words)+len(vectors))
	hits := make([]fusedHit, 0, len(words)+len(vectors))
	for _, h := range words {
		at[h.Ref] = len(hits)
		hits = append(hits, fusedHit{Ref: h.Ref, words: h.Score})
	}
	for i, h := range vectors {
		n, both := at[bm25.Ref(h.Ref)]
		if !both {
			n = len(hits)
			hits = append(hits, fusedHit{Ref: bm25.Ref(h.Ref)})
		}
		hits[n].cosine, hits[n].rank = h.Cosine, i+1
	}
	for i := range hits {
		if h := &hits[i]; h.cosine == 0 {
			var err error
			if h.cosine, err = cosine(h.Ref); err != nil {
				return nil, err
			}
		}
	}
	return hits, nil
}

// fuseScores computes fused scores of merged hits from normalized scores and cosines, and sorts
// the hits. texts is the number of texts that were searched.
func fuseScores(hits []fusedHit, vectors []dense.Hit, texts int) {
	scores, cosines := make([]float64, 0, armDepth), make([]float64, 0, armDepth)
	for i := range hits[:min(len(hits), armDepth)] {
		if hits[i].words > 0 {
			scores = append(scores, hits[i].words)
		}
	}
	for len(scores) < min(armDepth, texts) { // no other text contains a word of the question
		scores = append(scores, 0)
	}
	for _, h := range vectors[:min(len(vectors), armDepth)] {
		cosines = append(cosines, h.Cosine)
	}
	w, v := retrieval.DistributionOf(scores), retrieval.DistributionOf(cosines)
	for i := range hits {
		h := &hits[i]
		if h.words > 0 {
			h.byWords = (1 - h.weight) * w.Scale(h.words)
		}
		if h.cosine != 0 {
			h.byCosine = h.weight * v.Scale(h.cosine)
		}
	}
	sortFused(hits)
}

// fuseRanks computes fused scores of merged hits from their ranks, and sorts the hits.
func fuseRanks(hits []fusedHit) {
	for i := range hits {
		h := &hits[i]
		if h.words > 0 {
			h.byWords = (1 - h.weight) * retrieval.ReciprocalRank(i+1)
		}
		if h.rank > 0 {
			h.byCosine = h.weight * retrieval.ReciprocalRank(h.rank)
		}
	}
	sortFused(hits)
}

// sortFused adds the two parts of the scores and sorts hits, best first.
func sortFused(hits []fusedHit) {
	for i := range hits {
		h := &hits[i]
		h.score = math.Round(max(0, h.byWords+h.byCosine)/fusedUnit) * fusedUnit
	}
	slices.SortFunc(hits, func(a, b fusedHit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.words, a.words), cmp.Compare(b.cosine, a.cosine),
			cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Text, b.Text))
	})
}
