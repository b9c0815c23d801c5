package proxy

import (
	"math"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often memory is looked at, which takes microseconds.
	lookEvery = 100 * time.Millisecond
	// tightAt is how much of the limit may live, in percent. The collector fills
	// the rest with what does not, so it is what lives that counts; from here on it
	// would do little else than collect.
	tightAt = 90
)

// A memory knows when the process is about to run out of it: it would be ended,
// and every stream with it, so new requests are refused while there is time. The
// limit is the runtime's: GOMEMLIMIT, or what the process has set. Without one
// memory is never tight.
type memory struct {
	looked atomic.Int64 // Unix nanoseconds
	high   atomic.Bool
}

// tight reports whether memory was short when it was last looked at.
func (m *memory) tight(now time.Time) bool {
	last, next := m.looked.Load(), now.UnixNano()
	if next-last >= int64(lookEvery) && m.looked.CompareAndSwap(last, next) {
		m.high.Store(nearLimit())
	}
	return m.high.Load()
}

func nearLimit() bool {
	samples := []metrics.Sample{{Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	limit, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return limit < math.MaxInt64 && live > limit/100*tightAt
}
