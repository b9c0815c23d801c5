package bm25

import (
	"slices"
	"sync/atomic"
)

// A top keeps the best texts offered. Of equal scores it keeps the first in the order of the
// Index. Texts of one segment must be offered in that order.
type top struct {
	index     *Index
	heap      []key         // worst first: a binary heap once full
	threshold int64         // score of the worst once full
	shared    *atomic.Int64 // the greatest threshold of several tops, see parallel; may be nil
	floor     int64         // a bar derived from the shared threshold
	ties      bool          // a later text may precede the worst one at an equal score; not known until such a text is offered
}

// A key is a text with its score in the upper bits, so that most are compared and sorted as
// numbers. The lower bits are the text's number in the Index, see Index.first, counted from the
// last one: of equal scores in one segment the first text has the greatest key.
type key uint64

func (t *top) key(ref Ref, score int64) key {
	return key(uint64(score)<<t.index.bits | uint64(1<<t.index.bits-1-t.index.first[ref.Segment]-ref.Text))
}

func (t *top) score(k key) int64 { return int64(k >> t.index.bits) }

// ref returns the text of a key.
func (t *top) ref(k key) Ref {
	first := t.index.first
	number := int(^k & (1<<t.index.bits - 1))
	after, _ := slices.BinarySearch(first, number+1) // the first segment that begins after it
	return Ref{after - 1, number - first[after-1]}
}

// before reports whether the text of a precedes that of b.
func (t *top) before(a, b key) bool {
	if (a^b)>>t.index.bits == 0 && len(t.index.views) > 1 {
		return t.index.compare(t.ref(a), t.ref(b)) < 0
	}
	return a > b
}

// newTop returns a top of k texts. It uses room if that is large enough.
func newTop(room []key, k int, x *Index) *top {
	return &top{index: x, heap: slices.Grow(room[:0], k)[:0:k]}
}

// enter must be called before texts of another segment are offered.
func (t *top) enter() { t.ties = len(t.heap) == cap(t.heap) }

// bar returns what a text's score must exceed to be kept. It never falls within a segment: while
// the worst score stays the same, the worst text only moves forward in the order, and texts still
// to come move backward.
func (t *top) bar() int64 {
	bar := t.threshold
	if t.ties {
		bar--
	}
	return max(bar, t.floor)
}

// confer raises the shared threshold to this top's, and the bar to just below the shared one,
// because texts of other tops may come after those still to come here.
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

// offer adds a text whose score exceeds the bar.
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
		t.ties = false // the worst precedes this one, and so those to come
		return
	}
	// While the threshold stays, the worst text only moves forward, so ties stays valid.
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
	for from < len(hits) { // sort equal scores of several segments
		to := from + 1
		for to < len(hits) && hits[to].Score == hits[from].Score {
			to++
		}
		slices.SortFunc(hits[from:to], func(a, b Hit) int { return t.index.compare(a.Ref, b.Ref) })
		from = to
	}
	return hits
}
