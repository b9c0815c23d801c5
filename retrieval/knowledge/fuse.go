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

// fuse brings what was found by words and by vector into one list, best first. cosine returns
// that of a text, 0 for one without a vector, and weight what it weighs, where words weigh the
// rest. texts is how many there are to be found.
func fuse(words []bm25.Hit, vectors []dense.Hit, texts int, weight func(bm25.Ref) float64, cosine func(bm25.Ref) (float64, error)) ([]fusedHit, error) {
	at := make(map[bm25.Ref]int, len(words)+len(vectors))
	hits := make([]fusedHit, 0, len(words)+len(vectors))
	scores, cosines := make([]float64, 0, armDepth), make([]float64, 0, armDepth)
	for i, h := range words {
		if i < armDepth {
			scores = append(scores, h.Score)
		}
		at[h.Ref] = len(hits)
		hits = append(hits, fusedHit{Ref: h.Ref, words: h.Score})
	}
	for len(scores) < min(armDepth, texts) { // no other text has a word of the question
		scores = append(scores, 0)
	}
	for i, h := range vectors {
		if i < armDepth {
			cosines = append(cosines, h.Cosine)
		}
		n, both := at[bm25.Ref(h.Ref)]
		if !both {
			n = len(hits)
			hits = append(hits, fusedHit{Ref: bm25.Ref(h.Ref)})
		}
		hits[n].cosine = h.Cosine
	}
	for i := range hits {
		if h := &hits[i]; h.cosine == 0 {
			var err error
			if h.cosine, err = cosine(h.Ref); err != nil {
				return nil, err
			}
		}
	}
	w, v := retrieval.DistributionOf(scores), retrieval.DistributionOf(cosines)
	for i := range hits {
		h := &hits[i]
		h.weight = weight(h.Ref)
		if h.words > 0 {
			h.byWords = (1 - h.weight) * w.Scale(h.words)
		}
		if h.cosine != 0 {
			h.byCosine = h.weight * v.Scale(h.cosine)
		}
		h.score = math.Round(max(0, h.byWords+h.byCosine)/fusedUnit) * fusedUnit
	}
	slices.SortFunc(hits, func(a, b fusedHit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.words, a.words), cmp.Compare(b.cosine, a.cosine),
			cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Text, b.Text))
	})
	return hits, nil
}
