package bm25

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// parallelPostings is from how many postings of its terms on a question is searched by
	// several goroutines, which takes about 0.3 ms by one; another costs some 10 µs.
	parallelPostings = 1 << 17
	// maxSearchers is how many goroutines search for one question at most: the more there are,
	// the more is scored before the threshold is high.
	maxSearchers = 4
)

// A parallel is one search by several goroutines, each of which takes segments as long as
// there are any. The caller takes them, too, so no search waits for a processor that is busy.
type parallel struct {
	index *Index
	terms question
	k     int
	allow []Bitmap

	next      atomic.Int64 // first segment that nobody has taken
	threshold atomic.Int64 // k texts at least score so much, or it is 0

	mu       sync.Mutex
	ended    bool           // the caller found no segment any more: no helper begins
	helpers  sync.WaitGroup // those that have begun
	found    []key
	err      error
	panicked any
}

// searchers returns how many goroutines should search for a question.
func searchers(x *Index, q question) int {
	if count(q) < parallelPostings {
		return 1
	}
	return min(maxSearchers, len(x.views), runtime.GOMAXPROCS(0))
}

// findParallel is find by at most n goroutines.
func findParallel(ctx context.Context, x *Index, q question, k int, allow []Bitmap, n int, into []Hit) ([]Hit, error) {
	p := &parallel{index: x, terms: q, k: min(k, x.texts), allow: allow}
	for range n - 1 {
		go p.help(ctx)
	}
	err := p.work(ctx)
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.helpers.Wait()
	if p.panicked != nil {
		panic(p.panicked)
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		return nil, err
	}
	best := top{index: x, heap: p.found}
	hits := best.sorted(into)
	return hits[:min(len(hits), len(into)+p.k)], nil
}

// help is work beside that of the caller, who gets its error or panic.
func (p *parallel) help(ctx context.Context) {
	if !p.begin() {
		return
	}
	defer p.helpers.Done()
	defer func() {
		if value := recover(); value != nil {
			p.mu.Lock()
			p.panicked = value
			p.mu.Unlock()
		}
	}()
	if err := GuardMapped(func() error { return p.work(ctx) }); err != nil {
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
	}
}

func (p *parallel) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.helpers.Add(1)
	}
	return !p.ended
}

// work searches segments until none is left.
func (p *parallel) work(ctx context.Context) error {
	sc := borrow(p.index)
	best := newTop(sc.heap, p.k, p.index)
	best.shared = &p.threshold
	for i := int(p.next.Add(1)) - 1; i < len(p.index.views); i = int(p.next.Add(1)) - 1 {
		if err := sc.searchIn(ctx, p.index, i, p.terms, p.allow, best); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.found = append(p.found, best.heap...)
	p.mu.Unlock()
	sc.heap = best.heap
	giveBack(p.index, sc)
	return nil
}
