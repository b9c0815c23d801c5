package report_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sidenote/proxy/report"
)

// Quantiles are those of the sorted list with a relative error of at most 1/32, also after
// merging.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		us := rapid.Custom(func(t *rapid.T) int64 {
			return rapid.Int64Range(0, 1<<rapid.IntRange(0, 36).Draw(t, "bits")-1).Draw(t, "us")
		})
		list := rapid.SliceOfN(us, 1, 200).Draw(t, "list")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h, other report.Histogram
		for i, v := range list {
			to := &h
			if i%3 == 0 {
				to = &other
			}
			to.Add(time.Duration(v) * time.Microsecond)
		}
		h.Merge(&other)
		slices.Sort(list)
		want := float64(list[max(int(math.Ceil(q*float64(len(list)))), 1)-1])
		if got := float64(h.Quantile(q).Microseconds()); math.Abs(got-want) > want/32 {
			t.Fatalf("quantile %v of %v: got %v, want %v", q, list, got, want)
		}
		if h.Count() != len(list) {
			t.Fatalf("%d counted of %d", h.Count(), len(list))
		}
	})
}

func TestQuantilesAtTheEdges(t *testing.T) {
	var h report.Histogram
	if got := h.Quantile(.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	h.Add(-time.Second)
	if got := h.Quantile(1); got != 0 {
		t.Errorf("of a negative one: %v", got)
	}
	h.Add(math.MaxInt64)
	if got := h.Quantile(1); got < 18*time.Hour || got > 20*time.Hour {
		t.Errorf("of the longest: %v", got)
	}
}
