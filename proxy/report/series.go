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

// A requestKey holds what selects the series that count a request. Nearly all requests share a few
// keys.
type requestKey struct {
	tenant   string
	route    route.Kind
	stream   bool
	outcome  rewrite.Outcome
	injected bool
	degraded bool
	reason   rewrite.Reason // of a refused or untouched request, else ""
	told     bool           // the answer could report usage

	sent     bool   // to the upstream; if false, the next two are zero
	upstream string // name of the upstream
	code     int    // status of its answer
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

// A requestSeries holds the series that count the requests with one key.
type requestSeries struct {
	tenant    string // the label
	requests  prometheus.Counter
	duration  prometheus.Observer
	untouched prometheus.Counter // nil unless the outcome is untouched
	injected  prometheus.Counter // of tokens; nil unless a chat got sources
	used      tokenCounters      // nil unless the answer could report usage

	upstream string // the label; this and the next two are zero if nothing was sent
	answers  prometheus.Counter
	overhead prometheus.Observer
}

// recentSeries caches series by key, since finding them by their labels costs more than counting:
// recording a relayed request takes 0.13 µs with it and 0.9 without, a chat 0.3 and 1.1
// (BenchmarkRecord), and without it requests contend for locks.
type recentSeries[K comparable, V any] struct {
	table retrieval.Recent[series[K, V]]
}

type series[K comparable, V any] struct {
	of K
	v  V
}

// get returns the series of a key. If it is not cached, find looks it up by its labels, and says
// whether to cache it.
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

// findSeries looks up the series of r. Those of unconfigured names and unknown status codes are
// not cached, as each use of such a name is counted.
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

// fixed holds the series whose labels are constants. Each is created at its first use, so that
// events that never happened have no series.
type fixed struct {
	retrieval, fit, edit func() prometheus.Observer
	excluded             [retrieval.NumExcludeReasons]func() prometheus.Counter // in the order of retrieval.ExcludeReasons
	unfit                func() prometheus.Counter                              // of sources_excluded_total: sources that did not fit into the token budget
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
