package report_test

import (
	"fmt"
	"testing"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chunks"
)

func series(t *testing.T, m *report.Metrics) int {
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

// answered returns a call with an answer of that status.
func answered(status int) []report.Call {
	return []report.Call{{Purpose: report.ToAnswer, Status: status}}
}

// P12, T30: names that are not configured add no series.
func TestJunkAddsNoSeries(t *testing.T) {
	m := reporttest.NewMetrics()
	record := func(name string, code int) {
		r := reporttest.Injected()
		r.Route, r.Tenant, r.Upstream, r.Policy, r.ID = route.Chat, name, name, name, name
		r.Rewrite.Model.Row = "other"
		r.Rewrite.Ledger.Model = name
		r.Calls, r.Overhead = answered(code), time.Millisecond
		r.UsageFound, r.Usage = answer.UsageFound, answer.Usage{Input: 1200, CachedInput: 100, Output: 5, Known: true}
		r.Rewrite.Retrieval.Excluded = retrieval.NewExcludedList([]retrieval.Excluded{{Reason: retrieval.ExcludeReason(name)}})
		r.Stages = &report.Stages{Called: []report.Stage{{Name: name, Outcome: report.StageOK, Calls: 1}}}
		m.Record(r)
		m.Searched(name, retrieval.ReasonNone)
		m.Knowledge(name, 1, 1, 1, time.Unix(1, 0))
	}
	record("junk", 999)
	before := series(t, m)
	many := 100_000
	if testing.Short() {
		many = 10_000
	}
	for i := range many {
		record(fmt.Sprintf("junk-%d", i), 600+i%400)
	}
	if after := series(t, m); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	if limit := 1200 + 25*2; before > limit {
		t.Errorf("%d series to begin with; limit %d", before, limit)
	}
}

func TestOutcomes(t *testing.T) {
	f := func(want string, change func(*report.Report)) {
		t.Helper()
		m := reporttest.NewMetrics()
		r := reporttest.Injected()
		r.Tenant, r.Route = "acme", route.Chat
		change(r)
		m.Record(r)
		if n := reporttest.Count(t, m, "sidenote_requests_total", want); n != 1 {
			t.Errorf("outcome %s: counted %v times", want, n)
		}
	}
	f("injected", func(*report.Report) {})
	f("degraded", func(r *report.Report) { r.Rewrite.Reason, r.Reason = rewrite.ReasonTimeout, rewrite.ReasonTimeout })
	f("degraded", func(r *report.Report) {
		r.Outcome, r.Rewrite.Reason, r.Reason = rewrite.Untouched, rewrite.ReasonIndexing, rewrite.ReasonIndexing
	})
	f("untouched", func(r *report.Report) { r.Outcome, r.Reason = rewrite.Untouched, rewrite.ReasonNoMatch })
	f("shadow", func(r *report.Report) { r.Outcome = rewrite.Shadowed })
	f("relayed", func(r *report.Report) { r.Outcome, r.Route = report.Relayed, route.Models })
	f("refused_ambiguous_body", func(r *report.Report) { r.Outcome, r.Reason = rewrite.Refused, rewrite.ReasonAmbiguous })
	f("tools", func(r *report.Report) { r.Outcome = report.WithTools })
	f("degraded", func(r *report.Report) {
		r.Outcome, r.Rewrite.Outcome, r.Rewrite.Reason = report.WithTools, rewrite.Untouched, rewrite.ReasonTimeout
	})
	f("staged", func(r *report.Report) { r.Outcome = report.Staged })
	f("degraded", func(r *report.Report) {
		r.Outcome, r.Rewrite.Outcome, r.Rewrite.Reason = report.Staged, rewrite.Untouched, rewrite.ReasonTimeout
	})
	f("failed", func(r *report.Report) { r.Outcome, r.Reason = report.Failed, report.ReasonUpstreamConnect })
}

// Requests are counted in the series of their labels, independently of earlier requests. A name
// that is not configured counts as overflow each time.
func TestKindsKeepApart(t *testing.T) {
	m := reporttest.NewMetrics()
	const rounds = 3
	reports := []*report.Report{}
	add := func(change func(*report.Report)) {
		r := &report.Report{
			Tenant: "acme", Upstream: "openai", Route: route.Models, Outcome: report.Relayed,
			Status: 200, Calls: answered(200), Overhead: time.Millisecond, Total: time.Second,
		}
		change(r)
		reports = append(reports, r)
	}
	add(func(*report.Report) {})
	add(func(r *report.Report) { r.Tenant = "beta" })
	add(func(r *report.Report) { r.Tenant = "other" })
	add(func(r *report.Report) { r.Upstream = "strange" })
	add(func(r *report.Report) { r.Route = route.Embeddings })
	add(func(r *report.Report) { r.Stream = true })
	add(func(r *report.Report) { r.Calls = answered(404) })
	add(func(r *report.Report) { r.Outcome, r.Rewrite.Reason = rewrite.Untouched, rewrite.ReasonTimeout })
	add(func(r *report.Report) { r.Outcome, r.Reason, r.Overhead = rewrite.Refused, report.ReasonKey, 0 })
	add(func(r *report.Report) { r.Outcome, r.Reason, r.Overhead = rewrite.Refused, report.ReasonPath, 0 })
	add(func(r *report.Report) { r.Outcome, r.Reason = rewrite.Untouched, rewrite.ReasonNoMatch })
	add(func(r *report.Report) { r.Outcome, r.Reason = rewrite.Untouched, rewrite.ReasonRoute })
	for range rounds {
		for _, r := range reports {
			m.Record(r)
		}
	}
	for _, c := range []struct {
		name, label string
		kinds       float64
	}{
		{"sidenote_requests_total", "acme", 10},
		{"sidenote_requests_total", "beta", 1},
		{"sidenote_requests_total", "other", 1},
		{"sidenote_requests_total", "relayed", 7},
		{"sidenote_requests_total", "degraded", 1},
		{"sidenote_requests_total", "refused_invalid_api_key", 1},
		{"sidenote_requests_total", "refused_ambiguous_path", 1},
		{"sidenote_upstream_requests_total", "openai", 9},
		{"sidenote_upstream_requests_total", "other", 1},
		{"sidenote_upstream_requests_total", "404", 1},
		{"sidenote_upstream_requests_total", "200", 9},
		{"sidenote_request_duration_seconds", "models", 11},
		{"sidenote_request_duration_seconds", "embeddings", 1},
		{"sidenote_request_duration_seconds", "true", 1},
		{"sidenote_overhead_seconds", "relayed", 7},
		{"sidenote_overhead_seconds", "degraded", 1},
		{"sidenote_overhead_seconds", "refused_ambiguous_path", 0},
		{"sidenote_untouched_total", "no-match", 1},
		{"sidenote_untouched_total", "route", 1},
		{"sidenote_metrics_overflow_total", "", 2},
	} {
		if got := reporttest.Count(t, m, c.name, c.label); got != rounds*c.kinds {
			t.Errorf("%s of %q: %v, want %v", c.name, c.label, got, rounds*c.kinds)
		}
	}
}

// Series with constant labels are created by their first event, and each event is counted in its
// own series.
func TestSeriesBeginWhenCounted(t *testing.T) {
	m := reporttest.NewMetrics()
	before := series(t, m)
	r := &report.Report{Tenant: "acme", Route: route.Chat, Outcome: rewrite.Injected}
	m.Record(r)
	if got := series(t, m) - before; got != 2 { // request_duration_seconds and responses_total; requests_total has them from the start
		t.Errorf("%d series more", got)
	}
	r.Rewrite.RetrieveTook, r.Rewrite.EditTook = time.Millisecond, time.Microsecond
	r.Rewrite.Retrieval.Sources = make([]retrieval.Source, 5)
	r.Rewrite.Retrieval.Excluded = retrieval.NewExcludedList([]retrieval.Excluded{
		{Reason: retrieval.ExcludedScore}, {Reason: retrieval.ExcludedScore}, {Reason: retrieval.ExcludedDup},
		{Reason: retrieval.ExcludedScore}, {Reason: "fit"}, {Reason: "strange"},
	})
	r.Rewrite.Ledger.Chunks = &chunks.Ledger{In: 3, Excluded: []chunks.Excluded{{ID: "a", Reason: chunks.OutBudget}, {ID: "b", Reason: chunks.OutType}, {ID: "c", Reason: chunks.OutBudget}}}
	for range 2 {
		m.Record(r)
	}
	for _, c := range []struct {
		name, label string
		want        float64
	}{
		{"sidenote_chunks_total", "in", 6},
		{"sidenote_chunks_total", "budget", 4},
		{"sidenote_chunks_total", "exclude_types", 2},
		{"sidenote_stage_duration_seconds", "retrieval", 2},
		{"sidenote_stage_duration_seconds", "edit", 2},
		{"sidenote_stage_duration_seconds", "fit", 0},
		{"sidenote_sources_excluded_total", "score", 6},
		{"sidenote_sources_excluded_total", "duplicate", 2},
		{"sidenote_sources_excluded_total", "other", 4},
		{"sidenote_sources_excluded_total", "fit", 10},
	} {
		if got := reporttest.Count(t, m, c.name, c.label); got != c.want {
			t.Errorf("%s of %q: %v, want %v", c.name, c.label, got, c.want)
		}
	}
}

// The sources added to the prompt of a chat with tools are counted as without tools, whichever
// comes first; and each call is counted by tool and outcome.
func TestTools(t *testing.T) {
	m := reporttest.NewMetrics()
	before := series(t, m)
	m.Record(&report.Report{Tenant: "acme", Route: route.Chat, Outcome: rewrite.Injected})
	if got := series(t, m) - before; got != 2 {
		t.Errorf("%d series more without tools", got)
	}
	chat := func(added rewrite.Outcome) *report.Report {
		r := reporttest.Injected()
		r.Tenant, r.Route, r.Outcome, r.Rewrite.Outcome = "acme", route.Chat, report.WithTools, added
		r.Tools = &report.Tools{Rounds: 3}
		for _, c := range []report.ToolCall{
			{Name: "recall", Outcome: report.ToolOK, Tokens: 300, Took: time.Millisecond}, {Name: "recall", Outcome: report.ToolRepeated, Tokens: 12},
			{Name: "search_knowledge", Outcome: report.ToolOK, Tokens: 20, Took: time.Second}, {Outcome: report.ToolRefused},
		} {
			r.Tools.Add(c, nil)
		}
		return r
	}
	m.Record(chat(rewrite.Untouched))
	for range 2 {
		m.Record(chat(rewrite.Injected))
	}
	left := chat(rewrite.Injected)
	left.Tools = new(report.Tools) // its client left before the upstream answered
	m.Record(left)
	m.Record(&report.Report{Tenant: "acme", Route: route.Chat, Outcome: rewrite.Injected, ToolsSkipped: "choices"})
	for _, c := range []struct {
		name, label string
		want        float64
	}{
		{"sidenote_requests_total", "tools", 4},
		{"sidenote_context_tokens", "", 5},
		{"sidenote_tokens_total", "injected", 3 * 1187},
		{"sidenote_tool_calls_total", "recall", 6},
		{"sidenote_tool_calls_total", "search_knowledge", 3},
		{"sidenote_tool_calls_total", "other", 3},
		{"sidenote_tool_calls_total", "ok", 6},
		{"sidenote_tool_calls_total", "repeated", 3},
		{"sidenote_tool_calls_total", "refused", 3},
		{"sidenote_tool_call_duration_seconds", "recall", 3},
		{"sidenote_tool_call_duration_seconds", "search_knowledge", 3},
		{"sidenote_tool_rounds", "", 3},
		{"sidenote_tool_result_tokens", "", 12},
		{"sidenote_tools_unoffered_total", "choices", 1},
	} {
		if got := reporttest.Count(t, m, c.name, c.label); got != c.want {
			t.Errorf("%s of %q: %v, want %v", c.name, c.label, got, c.want)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	m := reporttest.NewMetrics()
	chat := reporttest.Injected()
	chat.Tenant, chat.Upstream, chat.Route, chat.Calls, chat.Overhead, chat.Total = "acme", "openai", route.Chat, answered(200), time.Millisecond, time.Second
	chat.Calls[0].Upstream, chat.Calls[0].Began, chat.Calls[0].Took = "openai", chat.Time.Add(time.Millisecond), 500*time.Millisecond
	chat.Rewrite.RetrieveTook, chat.Rewrite.FitTook, chat.Rewrite.EditTook = time.Millisecond, time.Microsecond, time.Microsecond
	chat.Rewrite.Retrieval.Excluded = retrieval.NewExcludedList([]retrieval.Excluded{{Reason: retrieval.ExcludedScore}, {Reason: retrieval.ExcludedScore}, {Reason: retrieval.ExcludedDup}, {Reason: retrieval.ExcludedTopK}})
	pass := *chat
	pass.Route, pass.Outcome, pass.Rewrite = route.Embeddings, report.Relayed, rewrite.Result{}
	cached := *chat
	cached.Policy, cached.UsageFound, cached.Usage = "base", answer.UsageFound, answer.Usage{Input: 3000, CachedInput: 2000, Output: 100, Known: true}
	cached.Context = report.ContextUsage{Tokens: budget.Tokens{Input: 1000, CachedInput: 400}, Cost: 1e9, Priced: true}
	for name, r := range map[string]*report.Report{"pass": &pass, "chat": chat, "chat with usage": &cached} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Record(r)
			}
		})
	}
}
