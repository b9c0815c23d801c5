package services

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A breaker opens after five failures in a row, or after three or more over at least a second. A
// call that waits for a second while no other call is answered counts as a failure, even if it is
// answered later: the timeouts of calls are far longer, and all of them would hang meanwhile. For
// a service known to be slow the second is longer. A breaker that opened less than ten seconds ago
// opens again only after a second of failures.
const (
	mostFailures = 5
	someFailures = 3
	longFailing  = time.Second
	mostPatience = 5 * time.Second
	settled      = 10 * time.Second
)

// Probing of a failed service. Timeout and interval together are at most 1.6 s.
const (
	probeTimeout = time.Second
	probeEvery   = 400 * time.Millisecond
)

// A breaker stops calls to a service that does not answer. After a successful probe it lets one
// call through, and the others once that has worked: a service may answer the probe and still fail
// calls.
type breaker struct {
	probe  func(context.Context) error // checks whether the service answers
	silent func()                      // called when the breaker opens because calls hang
	ctx    context.Context             // of probes
	least  time.Duration               // minimum time after which a call hangs; at least longFailing
	probes sync.WaitGroup

	mu       sync.Mutex
	period   uint64 // number of times it has opened
	open     bool
	probing  bool
	trial    bool // half-open: one call at a time
	trying   bool // that call is running
	failures int  // in a row
	since    time.Time
	last     time.Time     // when it last opened; zero: never
	until    time.Time     // end of the service's Retry-After; no probes before
	answered time.Time     // when a call was last answered
	patience time.Duration // time to wait for an answer, if longer than least
}

// isOpen reports whether calls are skipped.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open || b.trial && b.trying
}

// A turn is a call that the breaker lets through.
type turn struct {
	breaker *breaker
	period  uint64
	began   time.Time
	alone   bool
	hangs   *time.Timer
	failed  bool // already counted
	ended   bool
}

// begin lets a call through, or returns nil. hung is called if the call hangs.
func (b *breaker) begin(hung func()) *turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open || b.trial && b.trying {
		return nil
	}
	t := &turn{breaker: b, period: b.period, began: time.Now(), alone: b.trial}
	b.trying = b.trial
	t.hangs = time.AfterFunc(max(b.least, b.patience), func() { t.late(hung) })
	return t
}

// given returns the time that the call had, from its start to the deadline of ctx.
func (t *turn) given(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Since(t.began)
	}
	return deadline.Sub(t.began)
}

// late runs when a call has waited for long. The call hangs, which is a failure, if no call was
// answered in all that time.
func (t *turn) late(hung func()) {
	b := t.breaker
	b.mu.Lock()
	if t.ended {
		b.mu.Unlock()
		return
	}
	quiet, patience := time.Since(b.answered), max(b.least, b.patience)
	if b.answered.After(t.began) && quiet < patience {
		t.hangs.Reset(patience - quiet)
		b.mu.Unlock()
		return
	}
	t.failed = true
	opens := b.fail(t)
	b.mu.Unlock()
	hung()
	if opens {
		b.silent()
	}
}

// end records the outcome of the call, and the Retry-After of the service. A late answer counts as
// well, but does not end a Retry-After.
func (t *turn) end(v verdict, wait time.Duration) {
	t.hangs.Stop()
	b := t.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	t.ended = true
	if t.alone && t.period == b.period {
		b.trying = false
	}
	switch v {
	case works:
		b.answered = time.Now()
		b.patience = min(mostPatience, max(2*b.answered.Sub(t.began), b.patience*3/4))
		if !b.answered.Before(b.until) {
			b.open, b.trial, b.failures = false, false, 0
		}
	case fails:
		if !t.failed {
			b.fail(t)
		}
		b.hold(wait)
	case nothing:
	}
}

// fail counts a failure and reports whether it opened the breaker.
func (b *breaker) fail(t *turn) (opens bool) {
	if b.open || t.period != b.period { // the call began before it opened
		return false
	}
	now := time.Now()
	if b.failures++; b.failures == 1 {
		b.since = t.began
	}
	long := b.failures >= someFailures && now.Sub(b.since) >= longFailing
	many := b.failures >= mostFailures && (b.last.IsZero() || now.Sub(b.last) >= settled)
	if !long && !many && !b.trial {
		return false
	}
	b.opens(now)
	return true
}

func (b *breaker) opens(now time.Time) {
	b.open, b.trial, b.trying, b.failures, b.last = true, false, false, 0, now
	b.period++
	if !b.probing && b.ctx.Err() == nil {
		b.probing = true
		b.probes.Go(b.ask)
	}
}

// hold keeps the breaker open for at least wait, if it is positive.
func (b *breaker) hold(wait time.Duration) {
	if wait <= 0 {
		return
	}
	now := time.Now()
	if until := now.Add(wait); until.After(b.until) {
		b.until = until
	}
	if !b.open {
		b.opens(now)
	}
}

// ask probes until the breaker is no longer open.
func (b *breaker) ask() {
	for {
		b.mu.Lock()
		held := max(0, time.Until(b.until))
		b.mu.Unlock()
		select {
		case <-time.After(held + probeEvery/2 + rand.N(probeEvery)): // jitter, so that replicas get out of step
		case <-b.ctx.Done():
		}
		b.mu.Lock()
		b.probing = b.open && b.ctx.Err() == nil
		probing, held := b.probing, time.Until(b.until)
		b.mu.Unlock()
		switch {
		case !probing:
			return
		case held <= 0:
			b.probeOnce()
		}
	}
}

// probeOnce probes, and lets one call through if the service answers.
func (b *breaker) probeOnce() {
	ctx, cancel := context.WithTimeout(b.ctx, probeTimeout)
	defer cancel()
	err := b.probe(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.open:
	case verdictOf(err, probeTimeout) == works:
		b.open, b.trial, b.trying = false, true, false
	default:
		b.hold(retryAfter(err))
	}
}

// close stops the probes.
func (b *breaker) close(cancel context.CancelFunc) {
	b.mu.Lock()
	cancel()
	b.mu.Unlock()
	b.probes.Wait()
}
