package reporttest

import (
	"testing"

	"sidenote/proxy/report"
)

// NewMetrics returns metrics that know a few names.
func NewMetrics() *report.Metrics {
	return report.NewMetrics(report.MetricNames{
		Tenants: []string{"acme", "beta"}, Policies: []string{"base"}, Upstreams: []string{"openai"}, Knowledge: []string{"handbook"}, Stages: []string{"draft", "final"},
		Version: "v1", Commit: "abc",
	})
}

// Count returns the value of a counter or gauge, or the number of observations of a histogram,
// added up over the series with a label of the given value; "" means those without labels.
func Count(t *testing.T, m *report.Metrics, name, label string) float64 {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, metric := range f.GetMetric() {
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			if label == "" && len(metric.GetLabel()) == 0 {
				sum += value
			}
			for _, l := range metric.GetLabel() {
				if l.GetValue() == label {
					sum += value
				}
			}
		}
	}
	return sum
}
