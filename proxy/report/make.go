package report

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A factory makes registered metrics in the namespace "sidenote".
type factory struct{ promauto.Factory }

func optsOf(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "sidenote", Name: name, Help: help}
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts(optsOf(name, help)), labels)
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts(optsOf(name, help)), labels)
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{Namespace: "sidenote", Name: name, Help: help, Buckets: buckets}, labels)
}

// overheadBuckets range from 50 µs to 5 s.
func overheadBuckets() []float64 {
	return []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5}
}
