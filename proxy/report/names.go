package report

import (
	"maps"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// names are the configured names that a label may have.
type names struct {
	known    atomic.Pointer[map[string]struct{}] // never changed, but replaced
	overflow prometheus.Counter                  // counts the others
}

func newNames(list []string, overflow prometheus.Counter) *names {
	n := &names{overflow: overflow}
	n.known.Store(&map[string]struct{}{})
	n.add(list)
	return n
}

// add makes more names known. It must not be called twice at a time.
func (n *names) add(list []string) {
	all := maps.Clone(*n.known.Load())
	for _, name := range list {
		all[name] = struct{}{}
	}
	n.known.Store(&all)
}

// label returns s where it is configured, else Other.
func (n *names) label(s string) string {
	if _, ok := (*n.known.Load())[s]; ok {
		return s
	}
	if s != "" { // "" is no name, so it is no overflow
		n.overflow.Inc()
	}
	return OtherName
}

// Add makes names of a configuration that was read again known, beside those from before:
// their series stay, as requests that began before may still end. It must not be called twice
// at a time. Version and Commit are not read.
func (m *Metrics) Add(n MetricNames) {
	m.tenants.add(n.Tenants)
	m.upstreams.add(n.Upstreams)
	m.baseMetrics.names.add(n.Knowledge)
	m.answerStageMetrics.names.add(n.Stages)
	m.startTenants(n.Tenants)
}
