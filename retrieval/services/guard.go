package services

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// The limits of concurrent and of waiting calls. The transport opens at most twice as many
// connections as concurrent calls, since hanging calls give up their place.
const (
	MaxCalls   = 32
	MaxWaiting = 256
)

// The errors of calls that were not made.
var (
	ErrBusy = errors.New("has too many calls in progress")
	ErrDown = errors.New("does not answer; calls are skipped until a probe succeeds")
)

// Call sends a request and returns the JSON of an answer with status 200; any other status is a
// *StatusError. ErrBusy and ErrDown mean that nothing was sent: running and waiting calls are
// limited, and a service that does not answer is not called.
func (c *Remote) Call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	judge := func(err error, given time.Duration) (verdict, time.Duration) {
		return verdictOf(err, given), retryAfter(err)
	}
	return c.guard(ctx, judge, func() ([]byte, error) { return c.Ask(ctx, method, path, body) })
}

// CallAs is Call with a header, such as the caller's credential, instead of the Remote's key. A
// 429 for that caller does not count as a failure of the service.
func (c *Remote) CallAs(ctx context.Context, header http.Header, method, path string, body []byte) ([]byte, error) {
	judge := func(err error, given time.Duration) (verdict, time.Duration) {
		if e, ok := errors.AsType[*StatusError](err); ok && e.Status == http.StatusTooManyRequests {
			return works, 0
		}
		return verdictOf(err, given), retryAfter(err)
	}
	return c.guard(ctx, judge, func() ([]byte, error) { return c.send(ctx, header, method, path, body) })
}

// guard makes a call within the limits of the Remote. judge returns the verdict on its outcome,
// and the Retry-After.
func (c *Remote) guard(ctx context.Context, judge func(err error, given time.Duration) (verdict, time.Duration), call func() ([]byte, error)) ([]byte, error) {
	if c.breaker.isOpen() {
		return nil, ErrDown
	}
	select {
	case c.waiting <- struct{}{}:
		defer func() { <-c.waiting }()
	default:
		return nil, ErrBusy
	}
	select {
	case c.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrBusy, plain(ctx.Err()))
	}
	release := sync.OnceFunc(func() { <-c.calls })
	defer release()
	t := c.breaker.begin(release)
	if t == nil {
		return nil, ErrDown
	}
	v, wait := fails, time.Duration(0) // also on panic
	defer func() { t.end(v, wait) }()
	answer, err := call()
	v, wait = judge(err, t.given(ctx))
	return answer, err
}

// A verdict is what the outcome of a call says about the service.
type verdict uint8

const (
	nothing verdict = iota // the caller left, or allowed too little time
	works
	fails
)

// leastGiven is the time that a call must have had for a timeout to count.
const leastGiven = 100 * time.Millisecond

// verdictOf judges the outcome of a call that had the given time. A service that refuses a call
// works, unless it cannot answer (5xx) or limits the rate (429).
func verdictOf(err error, given time.Duration) verdict {
	var status *StatusError
	switch {
	case err == nil:
		return works
	case errors.As(err, &status):
		if status.Status >= 500 || status.Status == http.StatusTooManyRequests {
			return fails
		}
		return works
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && given < leastGiven:
		return nothing
	}
	return fails
}
