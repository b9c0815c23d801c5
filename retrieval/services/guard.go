package services

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// How many calls are made at a time, and how many more may wait for their turn. The
// transport opens at most twice as many connections as calls: calls that hang make room
// for others.
const (
	MaxCalls   = 32
	MaxWaiting = 256
)

// What a call that was not made ends with.
var (
	ErrBusy = errors.New("has as many searches under way as it may have")
	ErrDown = errors.New("does not answer; it is not asked until it does")
)

// Call sends a request and returns the JSON of an answer of 200; any other status is a
// *StatusError. ErrBusy and ErrDown say that nothing was sent: the calls of a slow service
// are bounded, those under way and those that wait, and a service that does not answer is
// left alone.
func (c *Remote) Call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	judge := func(err error, given time.Duration) (verdict, time.Duration) {
		return verdictOf(err, given), retryAfter(err)
	}
	return c.guard(ctx, judge, func() ([]byte, error) { return c.Ask(ctx, method, path, body) })
}

// CallAs is Call with header lines, such as somebody's credential, in place of the Client's key.
// That this somebody asks too much says nothing of the service for others.
func (c *Remote) CallAs(ctx context.Context, header http.Header, method, path string, body []byte) ([]byte, error) {
	judge := func(err error, given time.Duration) (verdict, time.Duration) {
		if e, ok := errors.AsType[*StatusError](err); ok && e.Status == http.StatusTooManyRequests {
			return works, 0
		}
		return verdictOf(err, given), retryAfter(err)
	}
	return c.guard(ctx, judge, func() ([]byte, error) { return c.send(ctx, header, method, path, body) })
}

// guard makes a call within the bounds of the Client. judge says what its end means, and for how
// long the service wants no other.
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
	v, wait := fails, time.Duration(0) // also if it panics
	defer func() { t.end(v, wait) }()
	answer, err := call()
	v, wait = judge(err, t.given(ctx))
	return answer, err
}

// A verdict is what the end of a call says of the service.
type verdict uint8

const (
	nothing verdict = iota // the caller left, or gave it too little time
	works
	fails
)

// leastGiven is what a call must have been given for its end to prove anything.
const leastGiven = 100 * time.Millisecond

// verdictOf judges the end of a call that was given so much time. A service that refuses a
// call works, unless it says that it cannot answer (5xx) or is asked too much (429).
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
