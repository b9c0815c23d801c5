package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// An Expiry is when a credential stops being valid.
type Expiry struct {
	Kind string // "key", "token" or "certificate"
	Name string // the configured name
	At   time.Time
}

// maxExpiries is how many credentials of a kind have a series.
const maxExpiries = 100

// WatchExpiries registers a gauge of the seconds until credentials expire. list is called at each
// scrape. Of more than 100 of a kind, those that expire next are exposed, then those that expired
// last. Call it at the start of the process, once.
func (m *Metrics) WatchExpiries(list func() []Expiry) {
	help := "Time until a credential expires; negative once it has."
	m.registry.MustRegister(&gauges{prometheus.NewDesc("sidenote_expiry_seconds", help, []string{"kind", "name"}, nil), func(add func(float64, ...string)) {
		now := time.Now()
		for _, e := range soonest(list(), now) {
			add(e.At.Sub(now).Seconds(), e.Kind, e.Name)
		}
	}})
}

// soonest returns at most maxExpiries of each kind, each name once.
func soonest(all []Expiry, now time.Time) (kept []Expiry) {
	slices.SortFunc(all, func(a, b Expiry) int {
		inA, inB := a.At.Sub(now), b.At.Sub(now)
		switch {
		case inA < 0 && inB < 0:
			return cmp.Compare(inB, inA)
		case inA < 0 || inB < 0:
			return cmp.Compare(inB, inA) // expired ones last
		}
		return cmp.Compare(inA, inB)
	})
	type name struct{ kind, name string }
	seen, count := map[name]bool{}, map[string]int{}
	for _, e := range all {
		if n := (name{e.Kind, e.Name}); !seen[n] && count[e.Kind] < maxExpiries {
			seen[n] = true
			count[e.Kind]++
			kept = append(kept, e)
		}
	}
	return kept
}

// WatchUpstreams registers a gauge of which upstreams can be connected to: 1 or 0 by configured name,
// read at each scrape. Call it at the start of the process, once.
func (m *Metrics) WatchUpstreams(up func() map[string]float64) {
	m.watchBy("upstream_up", "1 if an upstream can be connected to, at one of its base URLs.", "upstream", up)
}

// WatchIssuers registers a gauge of the seconds since the keys of issuers were read, by configured
// name, read at each scrape; infinite if there are none. Call it at the start of the process, once.
func (m *Metrics) WatchIssuers(ages func() map[string]float64) {
	m.watchBy("jwks_age_seconds", "Time since the keys of an issuer were read; infinite if there are none.", "issuer", ages)
}

func (m *Metrics) watchBy(name, help, label string, values func() map[string]float64) {
	m.registry.MustRegister(&gauges{prometheus.NewDesc("sidenote_"+name, help, []string{label}, nil), func(add func(float64, ...string)) {
		for of, value := range values() {
			add(value, of)
		}
	}})
}

// gauges collects gauges that are read at each scrape.
type gauges struct {
	desc *prometheus.Desc
	read func(add func(value float64, labels ...string))
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(out chan<- *prometheus.Desc) { out <- g.desc }

// Collect implements prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	g.read(func(value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels...)
	})
}
