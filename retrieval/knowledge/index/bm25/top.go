package bm25

import (
	"slices"
	"sync/atomic"
)

// A top keeps the best texts offered. Of equal scores the first in the order of
// compare stay. Texts of one segment must be offered in that order.
type top struct {
	heap      []scored // the worst first: a binary heap once full
	compare   Compare
	threshold int64         // score of the worst once full
	shared    *atomic.Int64 // the greatest threshold of several tops, see parallel; nil for none
	floor     int64         // a bar by the shared threshold
	ties      bool          // a text to come may stand before the worst where their scores are equal; not known before one with its score came
}

type scored struct {
	Ref
	score int64
}

// newTop returns a top of k texts, in room if that is enough.
func newTop(room []scored, k int, compare Compare) *top {
	return &top{heap: slices.Grow(room[:0], k)[:0:k], compare: compare}
}

// order sorts the best first.
func (t *top) order(a, b scored) int {
	switch {
	case a.score > b.score:
		return -1
	case a.score < b.score:
		return 1
	}
	return t.compare(a.Ref, b.Ref)
}

// enter says that the texts offered from now on are of another segment.
func (t *top) enter() { t.ties = len(t.heap) == cap(t.heap) }

// bar is what a text must score more than to get in. In the texts of a segment it
// never falls: as long as the worst score stays, the worst text only moves up and
// the texts to come only move down.
func (t *top) bar() int64 {
	bar := t.threshold
	if t.ties {
		bar--
	}
	return max(bar, t.floor)
}

// confer raises the shared threshold to this top's, and the bar to just below the shared one:
// the texts of others may stand behind those to come.
func (t *top) confer() {
	if t.shared == nil {
		return
	}
	known := t.shared.Load()
	for known < t.threshold && !t.shared.CompareAndSwap(known, t.threshold) {
		known = t.shared.Load()
	}
	t.floor = max(known, t.threshold) - 1
}

// offer takes a text whose score is above the bar.
func (t *top) offer(ref Ref, score int64) {
	s := scored{ref, score}
	switch {
	case len(t.heap) < cap(t.heap):
		t.heap = append(t.heap, s)
		t.up(len(t.heap) - 1)
	case t.order(s, t.heap[0]) < 0:
		t.heap[0] = s
		t.down()
	default:
		t.ties = false // as the worst stands before this one, it does so before those to come
		return
	}
	// While the threshold stays, the worst text only moves up, so ties stays as well.
	if worst := t.heap[0].score; len(t.heap) == cap(t.heap) && worst != t.threshold {
		t.threshold, t.ties = worst, true
	}
}

func (t *top) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t.order(t.heap[i], t.heap[parent]) < 0 {
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
		if child+1 < len(t.heap) && t.order(t.heap[child], t.heap[child+1]) < 0 {
			child++
		}
		if t.order(t.heap[i], t.heap[child]) > 0 {
			return
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
}

// sorted returns the texts, best first.
func (t *top) sorted() []Hit {
	slices.SortFunc(t.heap, t.order)
	hits := make([]Hit, len(t.heap))
	for i, s := range t.heap {
		hits[i] = Hit{Ref: s.Ref, Score: float64(s.score) / unit}
	}
	return hits
}
