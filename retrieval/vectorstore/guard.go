package vectorstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// How many searches a store is asked at a time, and how many may wait for that beside
// them. The transport opens no more than twice as many connections: searches that hang
// make room for others.
const (
	maxCalls   = 32
	maxWaiting = 256
)

var (
	errBusy = errors.New("has as many searches under way as it may have")
	errDown = errors.New("does not answer; it is not asked until it does")
)

// A guard bounds what a slow store costs: searches at a time, and those that wait. A
// store that does not answer is left alone.
type guard struct {
	breaker *breaker
	calls   chan struct{} // holds a token for each search under way
	waiting chan struct{} // and for each one here, under way or not
}

func newGuard(b *breaker) *guard {
	return &guard{breaker: b, calls: make(chan struct{}, maxCalls), waiting: make(chan struct{}, maxWaiting)}
}

// do makes a call, or says why not: errBusy or errDown.
func (g *guard) do(ctx context.Context, call func(context.Context) ([]byte, error)) ([]byte, error) {
	if g.breaker.isOpen() {
		return nil, errDown
	}
	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	default:
		return nil, errBusy
	}
	select {
	case g.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errBusy, plain(ctx.Err()))
	}
	release := sync.OnceFunc(func() { <-g.calls })
	defer release()
	t := g.breaker.begin(release)
	if t == nil {
		return nil, errDown
	}
	v := fails // also if it panics
	defer func() { t.end(v) }()
	answer, err := call(ctx)
	v = verdictOf(err, t.given(ctx))
	return answer, err
}

// A verdict is what a call says of the store.
type verdict uint8

const (
	nothing verdict = iota // the caller left, or gave it too little time
	works
	fails
)

// leastGiven is what a call must have been given for its end to prove anything.
const leastGiven = 100 * time.Millisecond

// verdictOf judges the end of a call that was given so much time. What a store refuses
// it has answered, but that it cannot, or that it is asked too much.
func verdictOf(err error, given time.Duration) verdict {
	var status *statusError
	switch {
	case err == nil:
		return works
	case errors.As(err, &status):
		if status.status >= 500 || status.status == http.StatusTooManyRequests {
			return fails
		}
		return works
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && given < leastGiven:
		return nothing
	}
	return fails
}
