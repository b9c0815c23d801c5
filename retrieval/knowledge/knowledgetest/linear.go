package knowledgetest

import (
	"testing"
	"time"
)

// Linear checks that the processor time of work is linear in n: it may be at most 2·factor times that
// of n/factor, where quadratic work takes factor² times as much. What else runs on the machine matters
// little, by the caches of the processor, so it compares up to ten times.
func Linear(tb testing.TB, name string, n, factor int, work func(n int)) {
	tb.Helper()
	var ratios []float64
	for range 10 {
		large := threadCPU(tb, func() { work(n) })
		small := max(threadCPU(tb, func() { work(n / factor) }), time.Nanosecond)
		ratio := float64(large) / float64(small)
		if ratio <= float64(2*factor) {
			return
		}
		ratios = append(ratios, ratio)
	}
	tb.Errorf("%s: %.0f times the time of one part in %d", name, ratios, factor)
}
