package proxy

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sidenote/retrieval"
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
	reason   rewrite.Reason // of a refusal and of an untouched request, else ""

	sent     bool   // else the two below are zero
	upstream string //
	code     int    // of its answer
}

func kindOf(r *Report) kind {
	k := kind{tenant: r.Tenant, route: r.Route, stream: r.Stream, outcome: r.Outcome, degraded: r.Degraded()}
	if r.Outcome == rewrite.Refused || r.Outcome == rewrite.Untouched {
		k.reason = r.Reason
	}
	if r.Overhead > 0 {
		k.sent, k.upstream, k.code = true, r.Upstream, r.UpstreamStatus
	}
	return k
}

// A tally is the series of one kind.
type tally struct {
	tenant    string // the label
	requests  prometheus.Counter
	duration  prometheus.Observer
	untouched prometheus.Counter // nil unless the request was
	injected  prometheus.Counter // tokens; nil unless a chat got sources

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
// costs more than to count. It is read without a lock and copied to be added to. What
// stands under one name (a tenant, a cache) is little: to compare with each costs less
// than to hash a whole key.
type seriesOf[K comparable, V any] struct {
	all  atomic.Pointer[map[string][]remembered[K, V]] // by name
	mu   sync.Mutex                                    // of writers
	size int
}

type remembered[K comparable, V any] struct {
	of K
	v  V
}

func (s *seriesOf[K, V]) get(name string, of *K) (v V, ok bool) {
	if all := s.all.Load(); all != nil {
		known := (*all)[name]
		for i := range known {
			if known[i].of == *of {
				return known[i].v, true
			}
		}
	}
	return v, false
}

func (s *seriesOf[K, V]) put(name string, of K, v V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.get(name, &of); ok || s.size >= maxKnown {
		return
	}
	next := map[string][]remembered[K, V]{}
	if all := s.all.Load(); all != nil {
		next = maps.Clone(*all)
	}
	next[name] = append(slices.Clip(next[name]), remembered[K, V]{of, v})
	s.size++
	s.all.Store(&next)
}

// tally returns the series of r's kind. Those of names that are not configured and
// of codes that do not exist are never remembered: anybody's junk would fill the
// space.
func (m *Metrics) tally(r *Report) *tally {
	k := kindOf(r)
	if t, ok := m.tallies.get(k.tenant, &k); ok {
		return t
	}
	t, outcome := &tally{tenant: m.name(m.tenants, r.Tenant)}, outcomeLabel(r)
	t.requests = m.requests.WithLabelValues(t.tenant, outcome)
	t.duration = m.durations.WithLabelValues(string(r.Route), strconv.FormatBool(r.Stream))
	switch {
	case r.Outcome == rewrite.Untouched:
		t.untouched = m.untouched.WithLabelValues(string(r.Reason))
	case r.Outcome == rewrite.Injected && r.Route == RouteChat:
		t.injected = m.tokens.WithLabelValues(t.tenant, "injected")
	}
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
		m.tallies.put(k.tenant, k, t)
	}
	return t
}

// fixed are series whose labels are words of ours, each made when it first counts:
// what never happened has no series.
type fixed struct {
	retrieval, fit, edit func() prometheus.Observer
	excluded             map[retrieval.ExcludeReason]func() prometheus.Counter
	unfit                func() prometheus.Counter // excluded too: no room in the budget
}

func newFixed(stages *prometheus.HistogramVec, excluded *prometheus.CounterVec) fixed {
	stage := func(name string) func() prometheus.Observer {
		return sync.OnceValue(func() prometheus.Observer { return stages.WithLabelValues(name) })
	}
	by := func(reason retrieval.ExcludeReason) func() prometheus.Counter {
		return sync.OnceValue(func() prometheus.Counter { return excluded.WithLabelValues(string(reason)) })
	}
	f := fixed{retrieval: stage("retrieval"), fit: stage("fit"), edit: stage("edit"), unfit: by("fit")}
	f.excluded = map[retrieval.ExcludeReason]func() prometheus.Counter{}
	for _, reason := range [...]retrieval.ExcludeReason{
		retrieval.ExcludedScore, retrieval.ExcludedDup, retrieval.ExcludedDocument, retrieval.ExcludedTopK, Other,
	} {
		f.excluded[reason] = by(reason)
	}
	return f
}
