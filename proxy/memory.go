package proxy

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often memory is looked at, which takes microseconds.
	lookEvery = 100 * time.Millisecond
	// collectEvery is the least time between two collections for want of memory. What
	// lives is known as of the last one, which without us may be two minutes old.
	collectEvery = time.Second
	// tightAt is how much of the limit may live, in percent. The collector fills
	// the rest with what does not, so it is what lives that counts; from here on it
	// would do little else than collect.
	tightAt = 90
	// bodyShare is the part of the limit that bodies may take together: one in so
	// many, and no more than half of what is free for them. While one grows there
	// are two of it, and what was read from it takes as much again.
	bodyShare = 4
)

// A memory knows when the process is about to run out of it: it would be ended,
// and every stream with it, so new requests are refused while there is time, and
// so are bodies that would grow beyond their share. The limit is the runtime's:
// GOMEMLIMIT, or what the process has set. Without one memory is never tight.
type memory struct {
	looked atomic.Int64 // Unix nanoseconds
	asked  atomic.Int64 // likewise, of the last collection that was asked for
	high   atomic.Bool
	most   atomic.Int64 // that bodies may ever take together, in bytes
	share  atomic.Int64 // that they may take now
	bodies atomic.Int64 // that they take
}

// tight reports whether memory was short when it was last looked at. Somebody looks
// before the first request: until then there is no share.
func (m *memory) tight(now time.Time) bool {
	if due(&m.looked, now, lookEvery) {
		m.look()
	}
	return m.high.Load() && (!m.collect(now) || m.high.Load())
}

// due reports whether so much time has passed since at, which is then now.
func due(at *atomic.Int64, now time.Time, every time.Duration) bool {
	last, next := at.Load(), now.UnixNano()
	return next-last >= int64(every) && at.CompareAndSwap(last, next)
}

// collect collects garbage before somebody is refused for it. It is false where that
// was done a moment ago.
func (m *memory) collect(now time.Time) bool {
	if !due(&m.asked, now, collectEvery) {
		return false
	}
	runtime.GC()
	m.look()
	return true
}

func (m *memory) look() {
	samples := []metrics.Sample{{Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	limit, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	if limit >= math.MaxInt64 {
		m.most.Store(math.MaxInt64)
		m.share.Store(math.MaxInt64)
		m.high.Store(false)
		return
	}
	usable := limit / 100 * tightAt
	others := live - min(live, uint64(max(0, m.bodies.Load())))
	most := limit / bodyShare
	m.most.Store(int64(most))
	m.share.Store(int64(min(most, (usable-min(usable, others))/2)))
	m.high.Store(live > usable)
}

// take takes n bytes for a body. It is false where bodies have their share.
func (m *memory) take(n int) bool {
	if m.room(m.bodies.Add(int64(n))) {
		return true
	}
	m.give(n)
	return false
}

// room reports whether bodies may take that much together.
func (m *memory) room(bytes int64) bool {
	if bytes <= m.share.Load() {
		return true
	}
	return bytes <= m.most.Load() && m.collect(time.Now()) && bytes <= m.share.Load()
}

// give gives back what take took.
func (m *memory) give(n int) { m.bodies.Add(-int64(n)) }

// fits reports whether a body of n bytes has room beside those that are there.
func (m *memory) fits(n int) bool { return m.room(m.bodies.Load() + int64(n)) }

// largest is n, or all that bodies may ever take if that is less.
func (m *memory) largest(n int) int { return int(min(int64(n), m.most.Load())) }
