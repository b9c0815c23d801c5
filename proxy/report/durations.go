package report

import (
	"math"
	"math/bits"
	"time"
)

const (
	// parts is the number of buckets per power of two from 2⁴ µs on. Below that, each microsecond
	// has its own bucket.
	parts = 16
	// longest caps the durations, in microseconds: 19 hours.
	longest = 1<<36 - 1
	buckets = 33 * parts
)

// A Histogram counts durations in buckets that get wider with the duration, as HdrHistogram (Gil
// Tene) does: quantiles have a relative error of at most 1/32. It takes 2 KiB and is not safe for
// concurrent use. The zero value is empty.
type Histogram struct {
	counts [buckets]uint32
	n      uint64
}

// Add counts a duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.n++
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
}

// Count returns the number of durations added.
func (h *Histogram) Count() int { return int(h.n) }

// Quantile returns the q-quantile by the nearest-rank method, as the middle of its bucket; 0 if
// the histogram is empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(h.n)))
	rank = max(rank, 1)
	for i, n := range h.counts {
		if rank <= uint64(n) {
			return middle(i)
		}
		rank -= uint64(n)
	}
	panic("BUG: fewer durations in buckets than were counted")
}

func bucketOf(d time.Duration) int {
	us := uint64(min(max(d.Microseconds(), 0), longest))
	if us < 2*parts {
		return int(us)
	}
	shift := bits.Len64(us) - 5 // leaves a number from parts to 2*parts-1
	return shift*parts + int(us>>shift)
}

// middle returns the middle of a bucket.
func middle(i int) time.Duration {
	if i < 2*parts {
		return time.Duration(i) * time.Microsecond
	}
	shift := i/parts - 1
	low := uint64(i-shift*parts) << shift
	return time.Duration(low+1<<shift/2) * time.Microsecond
}
