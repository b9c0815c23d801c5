package metrics

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// A requestKey holds what decides which series count a request. Nearly all requests
// have one of a few keys.
type requestKey struct {
	tenant   string
	route    route.Kind
	stream   bool
	outcome  rewrite.Outcome
	degraded bool
	reason   rewrite.Reason // of a refusal and of an untouched request, else ""

	sent     bool   // to the upstream; if not, the two below are zero
	upstream string // its name
	code     int    // the status of its answer
}

func requestKeyOf(r *report.Report) requestKey {
	k := requestKey{tenant: r.Tenant, route: r.Route, stream: r.Stream, outcome: r.Outcome, degraded: r.Degraded()}
	if r.Outcome == rewrite.Refused || r.Outcome == rewrite.Untouched {
		k.reason = r.Reason
	}
	if r.Overhead > 0 {
		k.sent, k.upstream, k.code = true, r.Upstream, r.UpstreamStatus()
	}
	return k
}

// A requestSeries holds the series that count the requests of one key.
type requestSeries struct {
	tenant    string // the label
	requests  prometheus.Counter
	duration  prometheus.Observer
	untouched prometheus.Counter // nil unless the outcome is untouched
	injected  prometheus.Counter // of tokens; nil unless a chat got sources

	upstream string // the label; zero, as the two below, if nothing was sent
	answers  prometheus.Counter
	overhead prometheus.Observer
}

// maxKnown bounds how many series are remembered. Others are found by their labels
// each time.
const maxKnown = 1024

// seriesOf remembers series by key, as finding them by their labels costs more than
// counting: a relayed request is recorded in 0.16 µs with it and 0.9 without, a chat in
// 0.45 and 0.85 (BenchmarkRecord), and no lock is shared. Readers take no lock; a writer replaces the whole map by a changed copy.
// Keys are grouped by a name (a tenant, a cache). A group is small, and comparing with
// each of its keys costs less than hashing a whole key.
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

// seriesFor returns the series that count r. Those for names that are not configured
// and for unknown status codes are not remembered, as anybody could fill the map with
// them.
func (m *Metrics) seriesFor(r *report.Report) *requestSeries {
	k := requestKeyOf(r)
	if t, ok := m.byRequest.get(k.tenant, &k); ok {
		return t
	}
	t, outcome := &requestSeries{tenant: m.tenants.label(r.Tenant)}, outcomeLabel(r)
	t.requests = m.requests.WithLabelValues(t.tenant, outcome)
	t.duration = m.durations.WithLabelValues(string(r.Route), strconv.FormatBool(r.Stream))
	switch {
	case r.Outcome == rewrite.Untouched:
		t.untouched = m.untouched.WithLabelValues(string(r.Reason))
	case r.Outcome == rewrite.Injected && r.Route == route.Chat:
		t.injected = m.tokens.WithLabelValues(t.tenant, "injected")
	}
	_, ours := m.tenants.known[r.Tenant]
	if k.sent {
		code := codeLabel(r.UpstreamStatus())
		t.upstream = m.upstreams.label(r.Upstream)
		t.answers = m.upstreamRequests.WithLabelValues(t.upstream, code)
		t.overhead = m.overhead.WithLabelValues(outcome)
		_, known := m.upstreams.known[r.Upstream]
		ours = ours && known && code != Other
	}
	if ours {
		m.byRequest.put(k.tenant, k, t)
	}
	return t
}

// fixed holds the series whose labels are constants. Each is made when it first counts:
// what never happened has no series.
type fixed struct {
	retrieval, fit, edit func() prometheus.Observer
	excluded             map[retrieval.ExcludeReason]func() prometheus.Counter
	unfit                func() prometheus.Counter // of sources_excluded_total, too: there was no room in the budget
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
