package cache

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A waitBudget is how long one request may still wait for its stores. Several slow
// look-ups, one after the other, cost no more than one; the time of concurrent look-ups
// is counted once.
type waitBudget struct {
	mu      sync.Mutex
	left    time.Duration
	waiting int       // look-ups under way
	since   time.Time // when waiting last rose from 0
}

type waitBudgetKey struct{}

// withWaitBudget gives the look-ups under ctx d in all, unless an outer Retriever has set
// their time already.
func withWaitBudget(ctx context.Context, d time.Duration) context.Context {
	if d <= 0 || ctx.Value(waitBudgetKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, waitBudgetKey{}, &waitBudget{left: d})
}

// spend begins a look-up that may take wait, but no longer than the request may still
// wait. If that is nothing, the error is ErrSkipped. The caller ends the look-up by
// done.
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

// begin starts a look-up and returns how long it may take.
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
