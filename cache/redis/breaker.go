package redis

import (
	"sync"
	"sync/atomic"
	"time"
)

// Thresholds for opening a breaker. A failure takes as long as a request may wait for Redis, so
// five in a row are enough, or three within at least a second if requests are rare. A slow Redis
// fails now and then, too, and must not make the breaker flap: a breaker that opened less than
// reopenPause ago opens again only after a second without success.
const (
	maxFailures    = 5
	minFailures    = 3
	minFailingTime = time.Second
	reopenPause    = 10 * time.Second
)

// A breaker stops calls to a Redis that does not answer. It begins open, closes when a probe
// succeeds, and then counts consecutive failures. The Store decides what counts as a failure. It shares
// the rule of when to open with the breaker of retrieval/services, which differs in all else: that one
// probes by itself, lets one call through after a probe, and finds calls that hang.
type breaker struct {
	closedPeriod atomic.Uint64 // number of the current closed period, from 1; 0 while open

	mu       sync.Mutex
	period   uint64 // number of the last closed period
	failures int    // consecutive
	since    time.Time
	opened   time.Time // when it last opened; zero if never
}

// allow returns the closed period that a call belongs to; 0 if calls are not allowed.
func (b *breaker) allow() uint64 { return b.closedPeriod.Load() }

// worked records a success, which resets the count of failures. It returns false for a call of an
// earlier period, which says nothing about the current state.
func (b *breaker) worked(period uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if period == 0 || period != b.closedPeriod.Load() {
		return false
	}
	b.failures = 0
	return true
}

// failed records a failure of a call of that period and returns true if it opened the breaker.
func (b *breaker) failed(period uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if period == 0 || period != b.closedPeriod.Load() {
		return false
	}
	now := time.Now()
	if b.failures++; b.failures == 1 {
		b.since = now
	}
	long := b.failures >= minFailures && now.Sub(b.since) >= minFailingTime
	many := b.failures >= maxFailures && (b.opened.IsZero() || now.Sub(b.opened) >= reopenPause)
	if !long && !many {
		return false
	}
	b.opened = now
	b.closedPeriod.Store(0)
	return true
}

// close closes the breaker, so that calls are allowed again.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.period++
	b.failures = 0
	b.closedPeriod.Store(b.period)
}
