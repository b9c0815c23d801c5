package bm25

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// parallelPostings is the number of postings from which a question is searched by several
	// goroutines. One goroutine takes about 0.3 ms for that many; starting another takes some 10
	// µs.
	parallelPostings = 1 << 17
	// maxSearchers is the most goroutines per question: the more there are, the more texts are
	// scored before the threshold is high.
	maxSearchers = 4
)

// A parallel is a search by several goroutines, each of which takes segments while there are any.
// The caller takes them, too, so no search waits for a busy processor.
type parallel struct {
	index *Index
	terms question
	k     int
	allow []Bitmap

	next      atomic.Int64 // next segment to search
	threshold atomic.Int64 // at least k texts have this score; 0 if not known

	mu       sync.Mutex
	ended    bool           // the caller found no more segments: no helper may begin
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

// findParallel is find with at most n goroutines.
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

// help runs work beside the caller, which gets its error or panic.
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
