package services

import (
	"cmp"
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

// GuardOptions configure a Guard. Probe is required.
type GuardOptions struct {
	Probe     func(ctx context.Context) error // checks whether the service answers
	OnHang    func(error)                     // called when calls are skipped from now on because they hang; may be nil
	HangAfter time.Duration                   // least time after which a call hangs; 0: a second
	Calls     int                             // maximum number of concurrent calls; 0: MaxCalls
}

// A Guard limits the calls of a service, and skips them while it does not answer.
type Guard struct {
	breaker *breaker
	stop    context.CancelFunc // stops the probes
	calls   chan struct{}      // holds a token for each running call
	waiting chan struct{}      // and for each waiting or running one
}

// NewGuard returns a Guard. Call Close when done with it.
func NewGuard(o GuardOptions) *Guard {
	calls := cmp.Or(o.Calls, MaxCalls)
	g := &Guard{calls: make(chan struct{}, calls), waiting: make(chan struct{}, max(calls, calls-MaxCalls+MaxWaiting))}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.breaker = &breaker{
		ctx:   ctx,
		least: max(longFailing, o.HangAfter),
		probe: o.Probe,
		silent: func() {
			if o.OnHang != nil {
				o.OnHang(plain(context.DeadlineExceeded))
			}
		},
	}
	return g
}

// Close stops the probes.
func (g *Guard) Close() { g.breaker.close(g.stop) }

// Skips reports whether calls are skipped because the service does not answer.
func (g *Guard) Skips() bool { return g.breaker.isOpen() }

// Do makes a call. ErrBusy and ErrDown mean that it was not made. answered reports whether an error
// is an answer of a service that works.
func (g *Guard) Do(ctx context.Context, answered func(error) bool, call func() error) error {
	judge := func(err error, given time.Duration) (verdict, time.Duration) {
		if err != nil && answered(err) {
			return works, 0
		}
		return verdictOf(err, given), retryAfter(err)
	}
	return g.do(ctx, judge, call)
}

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
func (c *Remote) guard(ctx context.Context, judge judge, call func() ([]byte, error)) (answer []byte, err error) {
	err = c.do(ctx, judge, func() (err error) {
		answer, err = call()
		return err
	})
	return answer, err
}

// A judge returns the verdict on the outcome of a call that had the given time, and the Retry-After.
type judge func(err error, given time.Duration) (verdict, time.Duration)

func (g *Guard) do(ctx context.Context, judge judge, call func() error) error {
	if g.breaker.isOpen() {
		return ErrDown
	}
	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	default:
		return ErrBusy
	}
	select {
	case g.calls <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusy, plain(ctx.Err()))
	}
	release := sync.OnceFunc(func() { <-g.calls })
	defer release()
	t := g.breaker.begin(release)
	if t == nil {
		return ErrDown
	}
	v, wait := fails, time.Duration(0) // also on panic
	defer func() { t.end(v, wait) }()
	err := call()
	v, wait = judge(err, t.given(ctx))
	return err
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
