package proxy

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sidenote/rewrite"
)

// A kind is what the series that requests count in depend on. Nearly all traffic
// is of a few kinds.
type kind struct {
	tenant   string
	route    Route
	stream   bool
	outcome  rewrite.Outcome
	degraded bool
	reason   rewrite.Reason // of a refusal, else ""

	sent     bool   // else the two below are zero
	upstream string //
	code     int    // of its answer
}

func kindOf(r *Report) kind {
	k := kind{tenant: r.Tenant, route: r.Route, stream: r.Stream, outcome: r.Outcome, degraded: r.Degraded()}
	if r.Outcome == rewrite.Refused {
		k.reason = r.Reason
	}
	if r.Overhead > 0 {
		k.sent, k.upstream, k.code = true, r.Upstream, r.UpstreamStatus
	}
	return k
}

// A tally is the series of one kind.
type tally struct {
	tenant   string // the label
	requests prometheus.Counter
	duration prometheus.Observer

	upstream string // the label; this and the rest is zero where nothing was sent
	answers  prometheus.Counter
	overhead prometheus.Observer
}

// A lookup is what the series of one look-up in a cache depends on: the program's
// own words.
type lookup struct{ cache, tier, result string }

// maxKnown bounds how many are remembered; those beyond are looked up each time.
const maxKnown = 1024

// seriesOf remembers series by what they depend on, for to find them by their labels
// costs more than to count. It is read without a lock and copied to be added to.
type seriesOf[K comparable, V any] struct {
	all atomic.Pointer[map[K]V]
	mu  sync.Mutex // of writers
}

func (k *seriesOf[K, V]) get(of K) (v V, ok bool) {
	if all := k.all.Load(); all != nil {
		v, ok = (*all)[of]
	}
	return v, ok
}

func (k *seriesOf[K, V]) put(of K, v V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := map[K]V{}
	if all := k.all.Load(); all != nil {
		if len(*all) >= maxKnown {
			return
		}
		next = maps.Clone(*all)
	}
	next[of] = v
	k.all.Store(&next)
}

// tally returns the series of r's kind. Those of names that are not configured and
// of codes that do not exist are never remembered: anybody's junk would fill the
// space.
func (m *Metrics) tally(r *Report) *tally {
	k := kindOf(r)
	if t, ok := m.tallies.get(k); ok {
		return t
	}
	t, outcome := &tally{tenant: m.name(m.tenants, r.Tenant)}, outcomeLabel(r)
	t.requests = m.requests.WithLabelValues(t.tenant, outcome)
	t.duration = m.durations.WithLabelValues(string(r.Route), strconv.FormatBool(r.Stream))
	_, ours := m.tenants[r.Tenant]
	if k.sent {
		code := codeLabel(r.UpstreamStatus)
		t.upstream = m.name(m.upstreams, r.Upstream)
		t.answers = m.upstreamRequests.WithLabelValues(t.upstream, code)
		t.overhead = m.overhead.WithLabelValues(outcome)
		_, known := m.upstreams[r.Upstream]
		ours = ours && known && code != Other
	}
	if ours {
		m.tallies.put(k, t)
	}
	return t
}
