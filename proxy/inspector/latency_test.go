package inspector

import (
	"strings"
	"testing"
	"time"

	"sidenote/proxy/explain"
)

// One slow minute does not flatten the others: it is cut at the top of the chart, and the chart
// says so.
func TestLatencyChartKeepsItsScaleBesideOutliers(t *testing.T) {
	at := func(p95s ...float64) *explain.Overview {
		v := new(explain.Overview)
		for i, p95 := range p95s {
			v.Minutes = append(v.Minutes, explain.Minute{Time: time.Unix(int64(60*i), 0), Overhead: explain.Quantile{P50: p95 / 2, P95: p95}})
		}
		return v
	}
	for _, c := range []struct {
		p95s        []float64
		top, beyond string
	}{
		{[]float64{1, 2, 1.5, 100_000}, "2 ms", "minutes beyond the scale: 1"},
		{[]float64{2, 100_000}, "2 ms", "minutes beyond the scale: 1"},
		{[]float64{1, 2, 3, 4}, "5 ms", ""},
		{[]float64{100_000}, "100000 ms", ""},
		{[]float64{0, 0, 7, 0}, "10 ms", ""},
	} {
		chart := latencyChart(at(c.p95s...))
		if chart.Top != c.top || chart.Beyond != c.beyond || strings.Contains(chart.Label, "beyond") != (c.beyond != "") {
			t.Errorf("%v: %q, %q, %q", c.p95s, chart.Top, chart.Beyond, chart.Label)
		}
		for _, col := range chart.Columns {
			for _, part := range col.Parts {
				if part.Y < 0 || part.Height <= 0 {
					t.Errorf("%v: %s leaves the chart: %+v", c.p95s, col.Title, part)
				}
			}
		}
	}
	if latencyChart(at(0, 0)) != nil {
		t.Error("a chart of nothing")
	}
}
