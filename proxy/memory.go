package proxy

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// checkEvery is how often memory usage is read, which takes microseconds.
	checkEvery = 100 * time.Millisecond
	// collectEvery is the least time between two garbage collections that we ask for. The figure
	// of live memory is that of the last collection, and the runtime may leave two minutes between
	// two of its own.
	collectEvery = time.Second
	// tightAt is the share of the limit, in percent, that live memory may take. Garbage that is
	// not yet collected does not count. Above this share the runtime would do little else than
	// collect.
	tightAt = 90
	// All bodies together may take 1/bodyShare of the limit, and at most half of the memory that
	// is free for them: a growing body exists twice while it is copied, and its parsed form takes
	// as much again.
	bodyShare = 4
)

// A memoryWatch watches the memory usage of the process. At its limit the process would be killed,
// with every stream; so before that, new requests are refused, and bodies that would exceed their
// share. The limit is the runtime's: GOMEMLIMIT, or what the process has set. Without a limit
// nothing is refused.
type memoryWatch struct {
	lastCheck   atomic.Int64 // Unix nanoseconds
	lastCollect atomic.Int64 // Unix nanoseconds of the last collection that we asked for
	short       atomic.Bool
	maxBodies   atomic.Int64 // the most bytes that bodies may ever take together
	share       atomic.Int64 // the most bytes that they may take now
	bodies      atomic.Int64 // bytes that they take
}

// Tight reports whether memory is short, as of the last check. Call Check first: before it,
// bodies have no share.
func (m *memoryWatch) Tight(now time.Time) bool {
	if due(&m.lastCheck, now, checkEvery) {
		m.Check()
	}
	return m.short.Load() && (!m.collect(now) || m.short.Load())
}

// due reports whether the duration every has passed since at. If so it sets at to now, so that
// only one caller gets true.
func due(at *atomic.Int64, now time.Time, every time.Duration) bool {
	last, next := at.Load(), now.UnixNano()
	return next-last >= int64(every) && at.CompareAndSwap(last, next)
}

// collect runs the garbage collector before a request is refused for lack of memory. It does
// nothing and returns false if that was done less than collectEvery ago.
func (m *memoryWatch) collect(now time.Time) bool {
	if !due(&m.lastCollect, now, collectEvery) {
		return false
	}
	runtime.GC()
	m.Check()
	return true
}

// Check reads the memory usage. Tight calls it regularly.
func (m *memoryWatch) Check() {
	samples := []metrics.Sample{{Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	limit, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	if limit >= math.MaxInt64 {
		m.maxBodies.Store(math.MaxInt64)
		m.share.Store(math.MaxInt64)
		m.short.Store(false)
		return
	}
	usable := limit / 100 * tightAt
	others := live - min(live, uint64(max(0, m.bodies.Load())))
	most := limit / bodyShare
	m.maxBodies.Store(int64(most))
	m.share.Store(int64(min(most, (usable-min(usable, others))/2)))
	m.short.Store(live > usable)
}

// Take reserves n bytes for a body. It reserves nothing and returns false if bodies would exceed
// their share.
func (m *memoryWatch) Take(n int) bool {
	if m.room(m.bodies.Add(int64(n))) {
		return true
	}
	m.Give(n)
	return false
}

// room reports whether all bodies together may take this many bytes.
func (m *memoryWatch) room(bytes int64) bool {
	if bytes <= m.share.Load() {
		return true
	}
	return bytes <= m.maxBodies.Load() && m.collect(time.Now()) && bytes <= m.share.Load()
}

// Give releases n bytes that Take reserved.
func (m *memoryWatch) Give(n int) { m.bodies.Add(-int64(n)) }

// Fits reports whether a body of n more bytes would fit.
func (m *memoryWatch) Fits(n int) bool { return m.room(m.bodies.Load() + int64(n)) }

// Largest returns n, or the most bytes that bodies may ever take together if that is less.
func (m *memoryWatch) Largest(n int) int { return int(min(int64(n), m.maxBodies.Load())) }

// Taken returns how many bytes bodies take.
func (m *memoryWatch) Taken() int64 { return m.bodies.Load() }
