package metrics

import "github.com/prometheus/client_golang/prometheus"

// A factory makes registered metrics under Sidenote's prefix.
type factory struct{ to prometheus.Registerer }

func (f factory) opts(name, help string) prometheus.Opts {
	return prometheus.Opts{Namespace: "sidenote", Name: name, Help: help}
}

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts(f.opts(name, help)))
	f.to.MustRegister(c)
	return c
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts(f.opts(name, help)), labels)
	f.to.MustRegister(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts(f.opts(name, help)))
	f.to.MustRegister(g)
	return g
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts(f.opts(name, help)), labels)
	f.to.MustRegister(g)
	return g
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "sidenote", Name: name, Help: help, Buckets: buckets})
	f.to.MustRegister(h)
	return h
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "sidenote", Name: name, Help: help, Buckets: buckets}, labels)
	f.to.MustRegister(h)
	return h
}

// overheadBuckets reach from 50 µs to 5 s.
func overheadBuckets() []float64 {
	return []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5}
}

// durationBuckets reach from 5 ms to ten minutes, after which SDKs give up.
func durationBuckets() []float64 {
	return []float64{5e-3, 25e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
}
