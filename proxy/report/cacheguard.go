package report

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sidenote/proxy/cacheguard"
)

// A cacheGuards collects the states of prompt caches at each scrape.
type cacheGuards struct {
	upstreams *names
	states    *prometheus.Desc
	status    atomic.Pointer[func() []cacheguard.Status]
}

func newCacheGuards(upstreams *names) *cacheGuards {
	return &cacheGuards{upstreams: upstreams, states: prometheus.NewDesc(
		"sidenote_cache_guard_state", "Whether sources break the prompt cache: 0 no, 1 yes, 2 yes and the placement was switched.", []string{"upstream", "model"}, nil)}
}

// WatchCaches sets where the states of prompt caches come from. The models are rows of the model
// table.
func (g *cacheGuards) WatchCaches(status func() []cacheguard.Status) { g.status.Store(&status) }

// Describe implements prometheus.Collector.
func (g *cacheGuards) Describe(all chan<- *prometheus.Desc) { all <- g.states }

// Collect implements prometheus.Collector.
func (g *cacheGuards) Collect(all chan<- prometheus.Metric) {
	status := g.status.Load()
	if status == nil {
		return
	}
	type series struct{ upstream, model string }
	states := map[series]cacheguard.State{}
	for _, s := range (*status)() {
		at := series{g.upstreams.label(s.Upstream), s.Model}
		states[at] = max(states[at], s.State)
	}
	for at, state := range states {
		all <- prometheus.MustNewConstMetric(g.states, prometheus.GaugeValue, float64(state), at.upstream, at.model)
	}
}
