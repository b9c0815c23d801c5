package report

import (
	"cmp"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

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
	injected bool
	degraded bool
	reason   rewrite.Reason // of a refusal and of an untouched request, else ""
	told     bool           // the answer could tell what it used

	sent     bool   // to the upstream; if not, the two below are zero
	upstream string // its name
	code     int    // the status of its answer
}

func requestKeyOf(r *Report) requestKey {
	k := requestKey{tenant: r.Tenant, route: r.Route, stream: r.Stream, outcome: r.Outcome, injected: r.Injected(), degraded: r.Degraded(), told: r.UsageFound != ""}
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
	used      tokenCounters      // nil unless the answer could tell what it used

	upstream string // the label; zero, as the two below, if nothing was sent
	answers  prometheus.Counter
	overhead prometheus.Observer
}

// recentSeries remembers series by key, as finding them by their labels costs more than
// counting: a relayed request is recorded in 0.13 µs with it and 0.9 without, a chat in 0.3
// and 1.1 (BenchmarkRecord), and without it requests share locks.
type recentSeries[K comparable, V any] struct {
	table retrieval.Recent[series[K, V]]
}

type series[K comparable, V any] struct {
	of K
	v  V
}

// get returns the series of a key, which find finds by their labels. They are remembered
// if find says so.
func (s *recentSeries[K, V]) get(of K, find func() (v V, remember bool)) V {
	hash := retrieval.Hash(of)
	if r := s.table.At(hash); r != nil && r.of == of {
		return r.v
	}
	v, remember := find()
	if remember {
		s.table.Put(hash, &series[K, V]{of, v})
	}
	return v
}

// seriesFor returns the series that count r.
func (m *Metrics) seriesFor(r *Report) *requestSeries {
	k := requestKeyOf(r)
	return m.byRequest.get(k, func() (*requestSeries, bool) { return m.findSeries(r, &k) })
}

// findSeries does not let those be remembered of names that are not configured and of
// unknown status codes, as each use of such a name is counted.
func (m *Metrics) findSeries(r *Report, k *requestKey) (t *requestSeries, remember bool) {
	outcome := outcomeLabel(r)
	t = &requestSeries{tenant: m.tenants.label(r.Tenant)}
	t.requests = m.requests.WithLabelValues(t.tenant, outcome)
	t.duration = m.durations.WithLabelValues(string(r.Route), strconv.FormatBool(r.Stream))
	switch {
	case r.Outcome == rewrite.Untouched:
		t.untouched = m.untouched.WithLabelValues(string(r.Reason))
	case r.Injected() && r.Route == route.Chat:
		t.injected = m.tokens.WithLabelValues(t.tenant, "injected")
	}
	for i, kind := range tokenKinds {
		if k.told {
			t.used[i] = m.tokens.WithLabelValues(t.tenant, kind)
		}
	}
	_, remember = (*m.tenants.known.Load())[r.Tenant]
	if k.sent {
		code := codeLabel(r.UpstreamStatus())
		t.upstream = m.upstreams.label(r.Upstream)
		t.answers = m.upstreamRequests.WithLabelValues(t.upstream, code)
		t.overhead = m.overhead.WithLabelValues(outcome)
		_, known := (*m.upstreams.known.Load())[r.Upstream]
		remember = remember && known && code != OtherName
	}
	return t, remember
}

// fixed holds the series whose labels are constants. Each is made when it first counts:
// what never happened has no series.
type fixed struct {
	retrieval, fit, edit func() prometheus.Observer
	excluded             [retrieval.NumExcludeReasons]func() prometheus.Counter // by their places in retrieval.ExcludeReasons
	unfit                func() prometheus.Counter                              // of sources_excluded_total, too: there was no room in the budget
}

func newFixed(stages *prometheus.HistogramVec, excluded *prometheus.CounterVec) fixed {
	stage := func(name string) func() prometheus.Observer {
		return sync.OnceValue(func() prometheus.Observer { return stages.WithLabelValues(name) })
	}
	by := func(reason retrieval.ExcludeReason) func() prometheus.Counter {
		return sync.OnceValue(func() prometheus.Counter { return excluded.WithLabelValues(string(reason)) })
	}
	f := fixed{retrieval: stage("retrieval"), fit: stage("fit"), edit: stage("edit"), unfit: by("fit")}
	for i, reason := range retrieval.ExcludeReasons() {
		f.excluded[i] = by(cmp.Or(reason, OtherName))
	}
	return f
}
