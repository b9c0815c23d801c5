package explain_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/cacheguard"
	"sidenote/proxy/explain"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// chatOverview returns the report of a chat that ended ago before noon.
func chatOverview(id string, ago time.Duration, change func(*report.Report)) *report.Report {
	r := reporttest.Injected()
	r.ID, r.Tenant, r.Policy, r.Route = id, "support", "base", route.Chat
	r.Time, r.Total, r.Overhead = noon.Add(-ago-time.Second), time.Second, 4*time.Millisecond
	if change != nil {
		change(r)
	}
	return r
}

func nothing(why rewrite.Reason) func(*report.Report) {
	return func(r *report.Report) {
		r.Outcome, r.Reason, r.Rewrite.Ledger.Sources = rewrite.Untouched, why, nil
		r.Rewrite.Retrieval = retrieval.Result{Cache: retrieval.CacheMiss, Bases: []retrieval.Ref{{Knowledge: "handbook"}, {Knowledge: "faq"}}}
	}
}

// A keeper knows one question.
type keeper struct{}

func (keeper) HasQuestions() bool { return true }

func (keeper) Question(id, tenant string) string {
	if id == "c" && tenant == "support" {
		return "Which <b>submarine</b>?"
	}
	return ""
}

func TestView(t *testing.T) {
	o := explain.NewRecorder()
	for _, r := range []*report.Report{
		chatOverview("old", 61*time.Minute, nil), // its minute is over an hour ago
		chatOverview("a", 59*time.Minute, func(r *report.Report) {
			r.Usage = answer.Usage{Input: 1500, CachedInput: 500, CacheWrite: 300, Output: 20, Known: true}
			r.Budget.Charged.Money, r.Rewrite.Model.Row = 250_000_000, "gpt-5*"
			r.Context = report.ContextUsage{Tokens: budget.Tokens{Input: 800, CachedInput: 200, CacheWrite: 100}, Cost: budget.Dollar / 10, Priced: true}
		}),
		chatOverview("b", 30*time.Second, func(r *report.Report) { r.Rewrite.Ledger.Sources = r.Rewrite.Ledger.Sources[:1]; r.Overhead = 0 }),
		chatOverview("c", 2*time.Minute, nothing(rewrite.ReasonNoMatch)),
		chatOverview("d", 2*time.Minute, nothing(rewrite.ReasonIrrelevant)),
		chatOverview("e", 2*time.Minute, nothing(rewrite.ReasonNoQueryTerms)),
		chatOverview("f", 2*time.Minute, func(r *report.Report) { r.Outcome, r.Budget.Rung = rewrite.Shadowed, "fewer_sources" }), // its sources were not used
		chatOverview("g", 2*time.Minute, func(r *report.Report) {
			nothing("")(r)
			r.Budget.Rung = "no_sources"
			r.Outcome, r.Tools = report.WithTools, &report.Tools{Sources: []rewrite.SourceEntry{{ID: 1, Knowledge: "handbook", Doc: "leave.md"}}}
		}),
		chatOverview("h", 2*time.Minute, func(r *report.Report) {
			r.Outcome, r.Route, r.Reason = report.Relayed, "models", rewrite.ReasonNoMatch
		}),
		chatOverview("i", 2*time.Minute, func(r *report.Report) { r.Time = time.Time{} }),
	} {
		o.Record(r)
	}
	o.CacheGuard = func() []cacheguard.Status {
		return []cacheguard.Status{{
			Key: cacheguard.Key{Upstream: "openai", Model: "gpt-5*"}, State: cacheguard.Warned, Placement: "system",
			Comparison: cacheguard.Comparison{Share: 0.25, Expected: 0.5, Requests: 80, Controls: 40},
		}}
	}
	v := o.View(noon.Add(-time.Nanosecond), keeper{})
	if len(v.Minutes) != explain.Minutes || !v.Minutes[0].Time.Equal(noon.Add(-time.Hour)) || v.Minutes[1].Requests != 1 || v.Minutes[58].Requests != 6 || v.Minutes[59].Requests != 1 {
		t.Errorf("%+v", v.Minutes[57:])
	}
	if diff := cmp.Diff(map[rewrite.Outcome]int{rewrite.Untouched: 3, rewrite.Shadowed: 1, report.WithTools: 1, report.Relayed: 1}, v.Minutes[58].Outcomes); diff != "" {
		t.Error(diff)
	}
	v.Minutes = nil
	got, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "object": "overview",
 "time": "2026-11-23T11:59:59.999999999Z",
 "requests": 8,
 "outcomes": [{"outcome":"injected","requests":2},{"outcome":"tools","requests":1},{"outcome":"staged","requests":0},{"outcome":"shadow","requests":1},{"outcome":"untouched","requests":3},{"outcome":"answered","requests":0},{"outcome":"refused","requests":0},{"outcome":"failed","requests":0},{"outcome":"relayed","requests":1}],
 "reasons": [{"outcome":"relayed","reason":"no-match","requests":1},{"outcome":"untouched","reason":"irrelevant","requests":1},{"outcome":"untouched","reason":"no-match","requests":1},{"outcome":"untouched","reason":"no-query-terms","requests":1}],
 "tokens": {"added":3561,"told":1,"input":1500,"cached":500,"cache_write":300,"output":20,"usd":0.25,"context_usd":0.1},
 "overhead_ms": {"p50":4.032,"p95":4.032,"p99":4.032},
 "cache": {"hits":4,"lookups":8,"share":0.5},
 "ladder": [{"rung":"no_stages","requests":0},{"rung":"fewer_sources","requests":1},{"rung":"shorter_sources","requests":0},{"rung":"no_planner","requests":0},{"rung":"no_sources","requests":1},{"rung":"refuse","requests":0}],
 "minutes": null,
 "prompt_cache": [{"tenant":"support","policy":"base","model":"gpt-5*","requests":1,"input_tokens":1500,"cached_input_tokens":500,"cache_write_tokens":300,"cached_share":0.3333333333333333,"context_tokens":800,"context_cached_tokens":200,"context_cache_write_tokens":100,"context_cached_share":0.25,"context_usd":0.1,"priced_requests":1}],
 "documents": [{"kb_id":"handbook","doc_id":"leave.md","name":"Leave policy","given":3},{"kb_id":"handbook","doc_id":"a\\\"b","name":"","given":1},{"kb_id":"handbook","doc_id":"it.md","name":"a\r\nSet-Cookie: x=1","given":1},{"kb_id":"handbook","doc_id":"überstunden.md","name":"Die \"Überstunden\"","given":1}],
 "documents_short": 0,
 "no_match": 1,
 "irrelevant": 1,
 "cache_guard": [{"upstream":"openai","model":"gpt-5*","state":"warned","placement":"system","auto":"","cached_share":0.25,"expected_share":0.5,"requests":80,"controls":40}],
 "questions": [{"id":"d","time":"2026-11-23T11:58:00Z","tenant":"support","policy":"base","reason":"irrelevant","knowledge":["handbook","faq"]},{"id":"c","time":"2026-11-23T11:58:00Z","tenant":"support","policy":"base","reason":"no-match","knowledge":["handbook","faq"],"text":"Which <b>submarine</b>?"}],
 "texts": true
}`
	if diff := cmp.Diff(decoded(t, want), decoded(t, string(got))); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, got)
	}
	if v := o.View(noon, nil); v.Texts || len(v.Questions) != 2 || v.Questions[1].Text != "" {
		t.Errorf("without texts: %+v", v.Questions)
	}
	if v := o.View(noon.Add(3*time.Hour), nil); v.Requests != 0 || len(v.Documents) != 0 || len(v.Questions) != 2 {
		t.Errorf("hours later: %+v", v)
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// No count is too high, none is too low by more than the stated error, and all are exact if there
// are no more documents than counters.
func TestDocumentsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, given := explain.NewRecorder(), map[string]int{}
		kinds := rapid.IntRange(1, 1000).Draw(t, "kinds")
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 1<<20), 0, 2000).Draw(t, "given") {
			if n%3 > 0 {
				n %= 5 // some are used often
			}
			id := fmt.Sprint(n % kinds)
			given[id]++
			o.Record(chatOverview("x", time.Duration(n%59+1)*time.Minute, func(r *report.Report) {
				r.Rewrite.Ledger.Sources = []rewrite.SourceEntry{{ID: 1, Knowledge: "kb", Doc: id}}
			}))
		}
		v := o.View(noon.Add(-time.Nanosecond), nil)
		if kinds <= 128 && v.MaxUndercount > 0 {
			t.Fatalf("short by %d with %d documents", v.MaxUndercount, kinds)
		}
		for _, d := range v.Documents {
			if d.Given > given[d.ID] || d.Given+v.MaxUndercount < given[d.ID] {
				t.Fatalf("%s: %d, was given %d times, short by %d", d.ID, d.Given, given[d.ID], v.MaxUndercount)
			}
		}
	})
}

// Among more documents than counters the frequent ones are found, and the maximum error of their
// counts is stated.
func TestFrequentDocumentsAreFound(t *testing.T) {
	o := explain.NewRecorder()
	const times = 100
	for i := range 20 * times {
		id := fmt.Sprint("rare-", i)
		if i%20 == 0 {
			id = "frequent"
		}
		o.Record(chatOverview("x", time.Minute, func(r *report.Report) {
			r.Rewrite.Ledger.Sources = []rewrite.SourceEntry{{ID: 1, Knowledge: "kb", Doc: id}}
		}))
	}
	v := o.View(noon, nil)
	if d := v.Documents[0]; d.ID != "frequent" || d.Given >= times || d.Given+v.MaxUndercount < times || v.MaxUndercount > 20*times/129 {
		t.Errorf("%+v, short by %d", d, v.MaxUndercount)
	}
}

// The use of prompt caches is added up by tenant, policy and model, and forgotten after an hour. The
// number of these is bounded.
func TestPromptUses(t *testing.T) {
	o := explain.NewRecorder()
	record := func(ago time.Duration, tenant, model string, u answer.Usage, c report.ContextUsage) {
		o.Record(chatOverview("x", ago, func(r *report.Report) { r.Tenant, r.Rewrite.Model.Row, r.Usage, r.Context = tenant, model, u, c }))
	}
	unpriced := report.ContextUsage{Tokens: budget.Tokens{Input: 100, CachedInput: 50}}
	record(70*time.Minute, "a", "m", answer.Usage{Input: 1e6}, unpriced)
	record(30*time.Minute, "a", "m", answer.Usage{Input: 1000, CachedInput: 500}, unpriced)
	record(5*time.Minute, "a", "m", answer.Usage{Input: 3000, CachedInput: 500}, report.ContextUsage{Tokens: budget.Tokens{Input: 100}, Cost: budget.Dollar, Priced: true})
	record(5*time.Minute, "a", "n", answer.Usage{Input: 5000}, report.ContextUsage{})
	record(5*time.Minute, "b", "m", answer.Usage{Input: 10, CacheWrite: 10}, report.ContextUsage{})
	record(5*time.Minute, "b", "m", answer.Usage{}, report.ContextUsage{}) // did not report usage
	want := []explain.PromptUse{
		{Tenant: "a", Policy: "base", Model: "n", Requests: 1, Input: 5000},
		{Tenant: "a", Policy: "base", Model: "m", Requests: 2, Input: 4000, CachedInput: 1000, CachedShare: .25, Context: 200, ContextCached: 50, ContextCachedShare: .25, ContextUSD: 1, Priced: 1},
		{Tenant: "b", Policy: "base", Model: "m", Requests: 1, Input: 10, CacheWrite: 10},
	}
	if diff := cmp.Diff(want, o.PromptUses(noon.Add(-time.Nanosecond))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range 1000 {
		record(5*time.Minute, "a", fmt.Sprint("model-", i), answer.Usage{Input: 1}, report.ContextUsage{})
	}
	if n := len(o.PromptUses(noon)); n > 101 {
		t.Errorf("%d are kept", n)
	}
	if got := o.PromptUses(noon.Add(2 * time.Hour)); len(got) != 0 {
		t.Errorf("hours later: %+v", got)
	}
}

// Reasons are counted over all minutes.
func TestReasonsAreCounted(t *testing.T) {
	o := explain.NewRecorder()
	for i := range 10 {
		o.Record(chatOverview("x", time.Duration(i+1)*time.Minute, nothing(rewrite.ReasonNoMatch)))
		o.Record(chatOverview("x", time.Minute, nothing(rewrite.Reason(fmt.Sprint("one of ", i%3)))))
	}
	for i := range 1000 { // there are not that many, and the memory would not grow
		o.Record(chatOverview("x", 30*time.Minute, nothing(rewrite.Reason(fmt.Sprint("invented ", i)))))
	}
	v := o.View(noon.Add(-time.Nanosecond), nil)
	if len(v.Reasons) != 20 || v.Reasons[0] != (explain.ReasonCount{Outcome: rewrite.Untouched, Reason: rewrite.ReasonNoMatch, Requests: 10}) || v.Reasons[1].Reason != "one of 0" || v.Reasons[1].Requests != 4 {
		t.Errorf("%d: %v", len(v.Reasons), v.Reasons[:2])
	}
}

// Memory is bounded, however long and many the names are.
func TestMemoryIsBounded(t *testing.T) {
	o := explain.NewRecorder()
	long := strings.Repeat("x", 64<<10)
	for i := range 5000 {
		o.Record(chatOverview("x", time.Duration(i%59)*time.Minute, func(r *report.Report) {
			r.Rewrite.Ledger.Sources = []rewrite.SourceEntry{{ID: 1, Knowledge: "kb", Doc: fmt.Sprint(i, long), Name: long}}
		}))
		o.Record(chatOverview("x", time.Minute, nothing(rewrite.ReasonNoMatch)))
	}
	before := heapOverview()
	if v := o.View(noon, nil); len(v.Documents) != 20 || len(v.Questions) != 100 || v.NoMatch != 5000 {
		t.Errorf("%d documents, %d questions, %d without a match", len(v.Documents), len(v.Questions), v.NoMatch)
	}
	runtime.KeepAlive(o)
	o = nil
	if kept := before - heapOverview(); kept > 1<<20 {
		t.Errorf("%d KiB", kept>>10)
	}
}

func heapOverview() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Recording and reading may happen concurrently.
func TestTogether(t *testing.T) {
	o := explain.NewRecorder()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				o.Record(chatOverview("x", time.Duration(i%59+1)*time.Minute, nil))
				if i%50 == 0 {
					o.View(noon, keeper{})
				}
			}
		})
	}
	all.Wait()
	if v := o.View(noon.Add(-time.Nanosecond), nil); v.Requests != 1600 || v.Documents[0].Given != 1600 {
		t.Errorf("%d requests", v.Requests)
	}
}

func BenchmarkOverviewRecord(b *testing.B) {
	for name, r := range map[string]*report.Report{"injected": chatOverview("x", time.Minute, nil), "no match": chatOverview("x", time.Minute, nothing(rewrite.ReasonNoMatch))} {
		b.Run(name, func(b *testing.B) {
			o := explain.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				o.Record(r)
			}
		})
	}
	b.Run("many documents", func(b *testing.B) {
		o, docs := explain.NewRecorder(), make([]*report.Report, 1000)
		for i := range docs {
			docs[i] = chatOverview("x", time.Minute, func(r *report.Report) {
				for j := range r.Rewrite.Ledger.Sources {
					r.Rewrite.Ledger.Sources[j].Doc = fmt.Sprint("policies/of/the/handbook/", i, j, ".md")
				}
			})
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			o.Record(docs[i%len(docs)])
		}
	})
}

func BenchmarkView(b *testing.B) {
	o := explain.NewRecorder()
	for i := range 60 {
		o.Record(chatOverview("x", time.Duration(i)*time.Minute, nil))
	}
	for b.Loop() {
		o.View(noon, nil)
	}
}
