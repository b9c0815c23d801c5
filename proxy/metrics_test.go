package proxy_test

import (
	"fmt"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

func newMetrics() *proxy.Metrics {
	return proxy.NewMetrics(proxy.Names{
		Tenants: []string{"acme", "beta"}, Upstreams: []string{"openai"}, Knowledge: []string{"handbook"},
		Version: "v1", Commit: "abc",
	})
}

func series(t *testing.T, m *proxy.Metrics) int {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

// P12, T30: junk names add no series.
func TestJunkAddsNoSeries(t *testing.T) {
	m := newMetrics()
	record := func(name string, code int) {
		r := injectedReport()
		r.Route, r.Tenant, r.Upstream, r.Policy, r.ID = proxy.RouteChat, name, name, name, name
		r.Rewrite.Model.Row = "other"
		r.Rewrite.Ledger.Model = name
		r.UpstreamStatus, r.Overhead = code, time.Millisecond
		r.Rewrite.Retrieval.Excluded = []retrieval.Excluded{{Reason: retrieval.ExcludeReason(name)}}
		m.Record(r)
		m.Searched(name, retrieval.ReasonNone)
		m.Knowledge(name, 1, 1, 1, time.Unix(1, 0))
	}
	record("junk", 999)
	before := series(t, m)
	for i := range 100_000 {
		record(fmt.Sprintf("junk-%d", i), 600+i%400)
	}
	if after := series(t, m); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	if limit := 1200 + 25*2; before > limit {
		t.Errorf("%d series to begin with; limit %d", before, limit)
	}
}

// counted returns the value of a counter that has a label of the given value.
func counted(t *testing.T, m *proxy.Metrics, name, label string) float64 {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					sum += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

func TestOutcomes(t *testing.T) {
	f := func(want string, change func(*proxy.Report)) {
		t.Helper()
		m := newMetrics()
		r := injectedReport()
		r.Tenant, r.Route = "acme", proxy.RouteChat
		change(r)
		m.Record(r)
		if n := counted(t, m, "sidenote_requests_total", want); n != 1 {
			t.Errorf("outcome %s: counted %v times", want, n)
		}
	}
	f("injected", func(*proxy.Report) {})
	f("degraded", func(r *proxy.Report) { r.Rewrite.Reason, r.Reason = rewrite.ReasonTimeout, rewrite.ReasonTimeout })
	f("degraded", func(r *proxy.Report) {
		r.Outcome, r.Rewrite.Reason, r.Reason = rewrite.Untouched, rewrite.ReasonIndexing, rewrite.ReasonIndexing
	})
	f("untouched", func(r *proxy.Report) { r.Outcome, r.Reason = rewrite.Untouched, rewrite.ReasonNoMatch })
	f("shadow", func(r *proxy.Report) { r.Outcome = rewrite.Shadowed })
	f("relayed", func(r *proxy.Report) { r.Outcome, r.Route = proxy.Relayed, proxy.RouteModels })
	f("refused_ambiguous_body", func(r *proxy.Report) { r.Outcome, r.Reason = rewrite.Refused, rewrite.ReasonAmbiguous })
	f("failed", func(r *proxy.Report) { r.Outcome, r.Reason = proxy.Failed, proxy.ReasonUpstreamConnect })
}
