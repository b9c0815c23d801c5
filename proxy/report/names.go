package report

import (
	"maps"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// names are the allowed values of a label.
type names struct {
	known    atomic.Pointer[map[string]struct{}] // the map is immutable and replaced as a whole
	overflow prometheus.Counter                  // counts other values
}

func newNames(list []string, overflow prometheus.Counter) *names {
	n := &names{overflow: overflow}
	n.known.Store(&map[string]struct{}{})
	n.add(list)
	return n
}

// add allows more names. Calls must not overlap.
func (n *names) add(list []string) {
	all := maps.Clone(*n.known.Load())
	for _, name := range list {
		all[name] = struct{}{}
	}
	n.known.Store(&all)
}

// label returns s if it is configured, else OtherName.
func (n *names) label(s string) string {
	if _, ok := (*n.known.Load())[s]; ok {
		return s
	}
	if s != "" { // an empty name is no overflow
		n.overflow.Inc()
	}
	return OtherName
}

// Add allows the names of a reloaded configuration. Earlier names stay allowed, as requests that
// began before the reload may still end. Calls must not overlap. Version and Commit are ignored.
func (m *Metrics) Add(n MetricNames) {
	m.tenants.add(n.Tenants)
	m.promptMetrics.policies.add(n.Policies)
	m.upstreams.add(n.Upstreams)
	m.baseMetrics.names.add(n.Knowledge)
	m.answerStageMetrics.names.add(n.Stages)
	m.experiments.add(n.Experiments)
	m.startTenants(n.Tenants)
}
