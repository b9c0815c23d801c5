package cache

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A waitBudget is how long one request may still wait for its stores. Several slow lookups in
// sequence cost no more than one; the time of concurrent lookups is counted once.
type waitBudget struct {
	mu      sync.Mutex
	left    time.Duration
	waiting int       // lookups in progress
	since   time.Time // when waiting last became positive
}

type waitBudgetKey struct{}

// withWaitBudget limits the lookups under ctx to d in total, unless an outer Retriever has already
// set a limit.
func withWaitBudget(ctx context.Context, d time.Duration) context.Context {
	if d <= 0 || ctx.Value(waitBudgetKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, waitBudgetKey{}, &waitBudget{left: d})
}

// spend begins a lookup that may take wait, but no longer than the rest of the budget. If nothing
// is left, the error is ErrSkipped. The caller must call done after the lookup.
func spend(ctx context.Context, wait time.Duration) (_ context.Context, done func(), err error) {
	p, _ := ctx.Value(waitBudgetKey{}).(*waitBudget)
	if p != nil {
		if wait = min(wait, p.begin()); wait <= 0 {
			p.end()
			return ctx, nil, fmt.Errorf("no time left for stores: %w", ErrSkipped)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	return ctx, func() {
		cancel()
		if p != nil {
			p.end()
		}
	}, nil
}

// begin starts a lookup and returns how long it may take.
func (p *waitBudget) begin() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.waiting++; p.waiting == 1 {
		p.since = now
	}
	return p.left - now.Sub(p.since)
}

func (p *waitBudget) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting--; p.waiting == 0 {
		p.left -= time.Since(p.since)
	}
}
