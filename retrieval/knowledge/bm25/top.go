package bm25

import (
	"cmp"
	"slices"
)

// A top keeps the best texts offered. Texts must be offered in order of ordinal:
// of equal scores the first offered stays.
type top struct {
	heap      []scored // the worst first: a binary heap once full
	threshold int64    // a text must score more than this to get in
}

type scored struct {
	text  int
	score int64
}

// worse orders the worst first.
func (a scored) worse(b scored) bool {
	return a.score < b.score || a.score == b.score && a.text > b.text
}

func newTop(k int) *top { return &top{heap: make([]scored, 0, k)} }

// offer takes a text whose score is above the threshold.
func (t *top) offer(text int, score int64) {
	s := scored{text, score}
	if len(t.heap) < cap(t.heap) {
		t.heap = append(t.heap, s)
		t.up(len(t.heap) - 1)
	} else {
		t.heap[0] = s
		t.down()
	}
	if len(t.heap) == cap(t.heap) {
		t.threshold = t.heap[0].score
	}
}

func (t *top) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.heap[i].worse(t.heap[parent]) {
			return
		}
		t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
		i = parent
	}
}

func (t *top) down() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(t.heap) {
			return
		}
		if child+1 < len(t.heap) && t.heap[child+1].worse(t.heap[child]) {
			child++
		}
		if !t.heap[child].worse(t.heap[i]) {
			return
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
}

// sorted returns the texts, best first.
func (t *top) sorted() []Hit {
	slices.SortFunc(t.heap, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.text, b.text))
	})
	hits := make([]Hit, len(t.heap))
	for i, s := range t.heap {
		hits[i] = Hit{Text: s.text, Score: float64(s.score) / unit}
	}
	return hits
}
