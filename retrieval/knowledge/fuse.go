package knowledge

import (
	"cmp"
	"math"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/index/dense"
)

// A fusedHit is a text that was found by its words, by its vector or by both.
type fusedHit struct {
	bm25.Ref
	score  float64 // fused
	words  float64 // the score of its words; 0 where it was not found by them
	cosine float64 // 0 where it has no vector
	weight float64 // of the cosine
	rank   int     // by vector, from 1; 0 where it was not found by it

	byWords, byCosine float64 // what they are of the fused score
}

// arm returns what says most for the hit.
func (h *fusedHit) arm() retrieval.Arm {
	if h.byCosine > h.byWords {
		return retrieval.ArmVector
	}
	return retrieval.ArmWords
}

const (
	// armDepth is how many candidates of each arm the distributions of scores are of, and at
	// least how many are fused.
	armDepth = 100
	// fusedUnit is the unit of fused scores: rounded, they take less room in caches.
	fusedUnit = 1.0 / (1 << 20)
)

// merge brings what was found by words and by vector into one list: first that by words, in its
// order. cosine returns that of a text, 0 for one without a vector.
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

// fuseScores scores what merge returns by scores and cosines on one scale, and sorts it. texts is
// how many there are to be found.
func fuseScores(hits []fusedHit, vectors []dense.Hit, texts int) {
	scores, cosines := make([]float64, 0, armDepth), make([]float64, 0, armDepth)
	for i := range hits[:min(len(hits), armDepth)] {
		if hits[i].words > 0 {
			scores = append(scores, hits[i].words)
		}
	}
	for len(scores) < min(armDepth, texts) { // no other text has a word of the question
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

// fuseRanks scores what merge returns by its ranks, and sorts it.
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

// sortFused adds up what words and cosine are of the scores, and puts the best hits first.
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
