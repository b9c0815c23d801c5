package bm25

import (
	"slices"
	"sync/atomic"
)

// A top keeps the best texts offered. Of equal scores the first in the order of the Index
// stay. Texts of one segment must be offered in that order.
type top struct {
	index     *Index
	heap      []key         // the worst first: a binary heap once full
	threshold int64         // score of the worst once full
	shared    *atomic.Int64 // the greatest threshold of several tops, see parallel; nil for none
	floor     int64         // a bar by the shared threshold
	ties      bool          // a text to come may stand before the worst where their scores are equal; not known before one with its score came
}

// A key is a text with its score in the upper bits: most are compared, and sorted, as numbers. In
// the lower bits is the text's number in the Index, see Index.first, counted from the last one: of
// equal scores in one segment the first text has the greatest key.
type key uint64

func (t *top) key(ref Ref, score int64) key {
	return key(uint64(score)<<t.index.bits | uint64(1<<t.index.bits-1-t.index.first[ref.Segment]-ref.Text))
}

func (t *top) score(k key) int64 { return int64(k >> t.index.bits) }

// ref returns the text of a key.
func (t *top) ref(k key) Ref {
	first := t.index.first
	number := int(^k & (1<<t.index.bits - 1))
	after, _ := slices.BinarySearch(first, number+1) // the first segment that begins behind it
	return Ref{after - 1, number - first[after-1]}
}

// before tells whether the text of a stands before that of b.
func (t *top) before(a, b key) bool {
	if (a^b)>>t.index.bits == 0 && len(t.index.views) > 1 {
		return t.index.compare(t.ref(a), t.ref(b)) < 0
	}
	return a > b
}

// newTop returns a top of k texts, in room if that is enough.
func newTop(room []key, k int, x *Index) *top {
	return &top{index: x, heap: slices.Grow(room[:0], k)[:0:k]}
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
	k := t.key(ref, score)
	switch {
	case len(t.heap) < cap(t.heap):
		t.heap = append(t.heap, k)
		t.up(len(t.heap) - 1)
	case t.before(k, t.heap[0]):
		t.heap[0] = k
		t.down()
	default:
		t.ties = false // as the worst stands before this one, it does so before those to come
		return
	}
	// While the threshold stays, the worst text only moves up, so ties stays as well.
	if worst := t.score(t.heap[0]); len(t.heap) == cap(t.heap) && worst != t.threshold {
		t.threshold, t.ties = worst, true
	}
}

func (t *top) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t.before(t.heap[i], t.heap[parent]) {
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
		if child+1 < len(t.heap) && t.before(t.heap[child], t.heap[child+1]) {
			child++
		}
		if t.before(t.heap[child], t.heap[i]) {
			return
		}
		t.heap[i], t.heap[child] = t.heap[child], t.heap[i]
		i = child
	}
}

// sorted appends the texts to hits, best first.
func (t *top) sorted(hits []Hit) []Hit {
	from := len(hits)
	slices.Sort(t.heap)
	hits = slices.Grow(hits, len(t.heap))
	for _, k := range slices.Backward(t.heap) {
		hits = append(hits, Hit{t.ref(k), float64(t.score(k)) / unit})
	}
	if len(t.index.views) == 1 {
		return hits
	}
	for from < len(hits) { // equal scores in several segments
		to := from + 1
		for to < len(hits) && hits[to].Score == hits[from].Score {
			to++
		}
		slices.SortFunc(hits[from:to], func(a, b Hit) int { return t.index.compare(a.Ref, b.Ref) })
		from = to
	}
	return hits
}
