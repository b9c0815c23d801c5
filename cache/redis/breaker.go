package redis

import (
	"sync"
	"sync/atomic"
	"time"
)

// When a breaker opens. One failure costs a request all the time that it may
// wait for Redis, so five in a row are plenty, as are a few over a second where
// requests are rare. A Redis that is merely slow fails now and then too, and must
// not switch its breaker on and off all the time: one that opened not long ago
// opens again only when nothing has worked for a second.
const (
	mostFailures = 5
	someFailures = 3
	longFailing  = time.Second
	settled      = 10 * time.Second
)

// A breaker keeps calls from a Redis that does not answer. It begins open, closes
// when a probe has worked, and counts failures in a row from then on. What
// counts as one, the Store decides.
type breaker struct {
	closed atomic.Uint64 // the period for which it is closed, counted from 1; 0: open

	mu       sync.Mutex
	period   uint64 // the last for which it was closed
	failures int    // in a row
	since    time.Time
	opened   time.Time // zero: never since the start
}

// allow returns the period that a call belongs to; 0 where none may be made.
func (b *breaker) allow() uint64 { return b.closed.Load() }

// worked ends a row of failures. It tells whether the call was of this period: one
// that began before the last failure of all says nothing of what is now.
func (b *breaker) worked(period uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if period == 0 || period != b.closed.Load() {
		return false
	}
	b.failures = 0
	return true
}

// failed counts a failure of a call of that period and tells whether it was the
// one that opened the breaker.
func (b *breaker) failed(period uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if period == 0 || period != b.closed.Load() {
		return false
	}
	now := time.Now()
	if b.failures++; b.failures == 1 {
		b.since = now
	}
	long := b.failures >= someFailures && now.Sub(b.since) >= longFailing
	many := b.failures >= mostFailures && (b.opened.IsZero() || now.Sub(b.opened) >= settled)
	if !long && !many {
		return false
	}
	b.opened = now
	b.closed.Store(0)
	return true
}

// close lets calls through again.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.period++
	b.failures = 0
	b.closed.Store(b.period)
}
