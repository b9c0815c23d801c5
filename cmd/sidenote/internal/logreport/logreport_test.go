package logreport_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/cache/budget"
	"sidenote/cmd/sidenote/internal/logreport"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/goldentest"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// chat returns the report of a chat that ended n seconds after noon.
func chatAbout(n int, tenant string, o rewrite.Outcome, why rewrite.Reason, tokens int) *report.Report {
	r := &report.Report{
		ID: fmt.Sprintf("01M7Y9S0G540QS2PPDJ5EB%04d", n), Time: noon.Add(time.Duration(n)*time.Second - 500*time.Millisecond), Total: 500 * time.Millisecond,
		Tenant: tenant, Policy: "base", Upstream: "openai", Route: route.Chat, Status: 200, Outcome: o, Reason: why,
		Client: report.ClientCompleted, Overhead: time.Duration(n%10+1) * time.Millisecond, TTFB: 300 * time.Millisecond,
		UsageFound: answer.UsageFound, Usage: answer.Usage{Input: 1000 + int64(tokens), CachedInput: 200, Output: 100, Known: true},
	}
	r.Rewrite.Model.Row, r.Rewrite.Ledger.Used, r.Rewrite.RetrieveTook = "gpt-5-mini", tokens, 2*time.Millisecond
	r.Rewrite.Retrieval.Bases, r.Rewrite.Retrieval.Cache = []retrieval.Ref{{Knowledge: "handbook"}}, retrieval.CacheMiss
	if n%4 == 0 {
		r.Rewrite.Retrieval.Cache = retrieval.CacheHit
	}
	if r.Injected() && tokens > 0 { // a half of what was added was cached
		r.Context.Tokens = budget.Tokens{Input: int64(tokens), CachedInput: min(200, int64(tokens)/2)}
	}
	if tokens > 0 {
		r.Rewrite.Ledger.Sources = []rewrite.SourceEntry{{ID: 1}, {ID: 2}, {}}
	}
	return r
}

// aDay returns reports of all kinds of requests.
func aDay() (list []*report.Report) {
	add := func(n int, make func(i int) *report.Report) {
		for range n {
			list = append(list, make(len(list)))
		}
	}
	add(24, func(i int) *report.Report { return chatAbout(i, "support", rewrite.Injected, "", 1200) })
	add(6, func(i int) *report.Report {
		return chatAbout(i, "support", rewrite.Untouched, rewrite.ReasonNoMatch, 0)
	})
	add(2, func(i int) *report.Report {
		return chatAbout(i, "support", rewrite.Untouched, rewrite.ReasonNoQueryTerms, 0)
	})
	add(3, func(i int) *report.Report {
		r := chatAbout(i, "sales", rewrite.Untouched, rewrite.ReasonIrrelevant, 0)
		r.Rewrite.Retrieval.Bases = append(r.Rewrite.Retrieval.Bases, retrieval.Ref{Knowledge: "prices"})
		return r
	})
	add(8, func(i int) *report.Report {
		r := chatAbout(i, "trial", rewrite.Shadowed, "", 800)
		r.Policy, r.TTFB = "shadow", 250*time.Millisecond
		return r
	})
	add(2, func(i int) *report.Report { return chatAbout(i, "trial", rewrite.Shadowed, rewrite.ReasonNoMatch, 0) })
	add(2, func(i int) *report.Report {
		r := chatAbout(i, "sales", report.WithTools, "", 0)
		r.Tools = &report.Tools{Rounds: 3, CallsOmitted: 2, Tokens: 90}
		r.Budget.Charged.Money = budget.USD / 8
		return r
	})
	add(2, func(i int) *report.Report {
		r := chatAbout(i, "sales", report.Staged, "", 500)
		r.Stages = &report.Stages{Total: 2, Answer: "draft", Called: []report.Stage{
			{Name: "draft", Outcome: report.StageOK, Took: time.Second, Usage: answer.Usage{Input: 900, Output: 120}},
			{Name: "critic", Outcome: report.StageTimeout, Took: time.Minute},
		}}
		r.Rewrite.Model.Row = "o-unpriced"
		return r
	})
	add(1, func(i int) *report.Report {
		r := chatAbout(i, "\x1b[31mred\u202e", rewrite.Refused, report.ReasonRateLimit, 0)
		r.Status, r.Overhead, r.UsageFound, r.Usage = 429, 0, "", answer.Usage{}
		r.Rewrite = rewrite.Result{}
		return r
	})
	add(1, func(i int) *report.Report {
		return &report.Report{ID: fmt.Sprintf("01M7Y9S0G540QS2PPDJ5EB%04d", i), Time: noon, Route: route.Kind("models"), Status: 200, Outcome: report.Relayed, Client: report.ClientCompleted}
	})
	return list
}

// logOf returns the log lines of reports.
func logOf(list ...*report.Report) []byte {
	var b bytes.Buffer
	to := &report.Log{Lines: &b, Logger: slog.New(slog.DiscardHandler)}
	defer to.Close()
	for _, r := range list {
		to.Record(r)
	}
	return b.Bytes()
}

var prices = budget.PriceTable{{Match: "gpt-5*", Prices: must(budget.ParsePrices("0.25", "0.025", "2"))}}

func must(p budget.Prices, err error) budget.Prices {
	if err != nil {
		panic(err)
	}
	return p
}

func read(t *testing.T, tally *logreport.Tally, text []byte) *logreport.Report {
	t.Helper()
	if err := tally.Read(t.Context(), bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return tally.Report()
}

// The output for people and scripts of a log with all kinds of requests, and with other lines.
func TestGolden(t *testing.T) {
	text := logOf(aDay()...)
	text = append(text, `{"time":"2026-11-23T12:00:00Z","level":"WARN","msg":"degraded: requests go on without it","stage":"planner","status":"bad"}
{"time":"2026-11-23T12:00:00Z","level":"INFO","msg":"request","id":"01M7Y9S0G540QS2PPDJ5EB9999","tenant":"a
plain text
{"time":"2026-11-22T12:00:00Z","level":"INFO","msg":"request","id":"01M7Y9S0G540QS2PPDJ5EB9998","outcome":"injected"}
`...)
	r := read(t, &logreport.Tally{Prices: prices, Since: noon.Add(-time.Minute)}, text)
	var page bytes.Buffer
	r.Print(&page)
	goldentest.Text(t, "testdata/day.txt", page.String())
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Text(t, "testdata/day.json", string(data)+"\n")
}

// Requests of every API that is answered with a model's text count as chats; those that only count
// tokens do not.
func TestChatsOfEveryAPI(t *testing.T) {
	var all []*report.Report
	for i, kind := range []route.Kind{route.Chat, route.Responses, route.Messages, route.InputTokens, route.CountTokens} {
		r := chatAbout(i, "support", rewrite.Injected, "", 100)
		r.Route = kind
		all = append(all, r)
	}
	if got := read(t, &logreport.Tally{}, logOf(all...)).All; got.Chats != 3 || got.Injected != 3 || got.InjectedShare != 1 {
		t.Errorf("%+v", got)
	}
}

// Two halves of a log add up to the whole, also if compressed or prefixed by a collector.
func TestReadsWhatCollectorsKeep(t *testing.T) {
	list := aDay()
	whole := read(t, new(logreport.Tally), logOf(list...))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(logOf(list[10:]...))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var lead bytes.Buffer
	for line := range bytes.Lines(logOf(list[:10]...)) {
		fmt.Fprintf(&lead, "Nov 23 12:00:00 host sidenote[12]: %s\r\n", bytes.TrimSpace(line))
	}
	both := new(logreport.Tally)
	read(t, both, lead.Bytes())
	if diff := cmp.Diff(whole, read(t, both, zipped.Bytes())); diff != "" {
		t.Errorf("(-whole +halves):\n%s", diff)
	}
}

// Invalid lines are distinguished from other programs' lines, and do not affect neighbouring
// lines.
func TestLinesThatAreNone(t *testing.T) {
	good := string(logOf(chatAbout(1, "a", rewrite.Injected, "", 10)))
	f := func(line string, want logreport.Lines) {
		t.Helper()
		want.Read, want.Requests = want.Read+2, 2
		if diff := cmp.Diff(want, read(t, new(logreport.Tally), []byte(good+line+"\n"+good)).Lines); diff != "" {
			t.Errorf("%.80q (-want +got):\n%s", line, diff)
		}
	}
	brokenLine, otherLine := logreport.Lines{Read: 1, Broken: 1}, logreport.Lines{Read: 1, Other: 1}
	edit := func(old, new string) string {
		line := strings.TrimSpace(good)
		if !strings.Contains(line, old) {
			t.Fatalf("no %s in %s", old, line)
		}
		return strings.Replace(line, old, new, 1)
	}
	f("", logreport.Lines{})
	f("14:02:11  200  gpt-5-mini  4 sources", brokenLine)
	f(good[:len(good)/2], brokenLine)
	f(strings.Repeat("x", 3<<20), brokenLine)
	f(`{"text":"`+strings.Repeat("x", 3<<20)+`"}`, brokenLine)
	f(edit(`"context_tokens":10`, `"context_tokens":-10`), brokenLine)
	f(edit(`"context_tokens":10`, `"context_tokens":9223372036854775807`), brokenLine)
	f(edit(`"context_tokens":10`, `"context_tokens":"10"`), brokenLine)
	f(edit(`"cached_input_tokens":200`, `"cached_input_tokens":20000`), brokenLine)
	f(edit(`"context_cached_tokens":5`, `"context_cached_tokens":11`), brokenLine)
	f(edit(`"context_input_tokens":10`, `"context_input_tokens":100000`), brokenLine)
	f(edit(`"duration_ms":500`, `"duration_ms":1e300`), brokenLine)
	f(edit(`"time":"2026`, `"time":"26`), brokenLine)
	f(edit(`"msg":"request"`, `"msg":"listening"`), otherLine)
	f(edit(`"outcome":"injected"`, `"outcome":""`), otherLine)
	f(`{"msg":"request","status":200}`, otherLine)
	f(`{"msg":"ready","status":"fine"}`, otherLine)
	f(`[1,2]`, brokenLine)
	f(`{}`, otherLine)
}

// A read error keeps what was counted before.
func TestReadErrors(t *testing.T) {
	text := logOf(aDay()...)
	wrong := errors.New("the disk is gone")
	tally := new(logreport.Tally)
	if err := tally.Read(t.Context(), iotest.TimeoutReader(bytes.NewReader(text))); err != nil && !errors.Is(err, iotest.ErrTimeout) {
		t.Error(err)
	}
	if err := tally.Read(t.Context(), iotest.ErrReader(wrong)); !errors.Is(err, wrong) {
		t.Error(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(text)
	_ = z.Close()
	cut := new(logreport.Tally)
	if err := cut.Read(t.Context(), bytes.NewReader(zipped.Bytes()[:zipped.Len()-9])); err == nil {
		t.Error("a file that was cut was read whole")
	}
	if n := cut.Report().Lines.Requests; n == 0 {
		t.Error("nothing was counted of a file that was cut")
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cut.Read(stopped, bytes.NewReader(text)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Memory is bounded whatever names a log has.
func TestMemoryIsBounded(t *testing.T) {
	tally := new(logreport.Tally)
	requests := 20_000
	if testing.Short() {
		requests = 4000
	}
	for i := range requests {
		r := chatAbout(i, fmt.Sprintf("tenant-%d-%s", i, strings.Repeat("x", 500)), rewrite.Untouched, rewrite.Reason(fmt.Sprint("reason-", i)), 0)
		r.Policy, r.ID = fmt.Sprint("policy-", i), "01M7Y9S0G540QS2PPDJ5EB0000"
		r.Stages = &report.Stages{Called: []report.Stage{{Name: fmt.Sprint("stage-", i)}}}
		tally.Add(logOf(r))
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 40<<20 {
		t.Errorf("%d MiB are kept", m.HeapAlloc>>20)
	}
	r := tally.Report()
	rest := r.Tenants[0]
	if len(r.Tenants) > 501 || len(r.Policies) > 501 || len(r.Reasons) > 501 || len(r.Stages) > 501 || rest.Name != "(others)" || rest.Requests != requests-500 {
		t.Errorf("%d tenants, %d policies, %d reasons, %d stages, %d requests of %s", len(r.Tenants), len(r.Policies), len(r.Reasons), len(r.Stages), rest.Requests, rest.Name)
	}
	runtime.KeepAlive(tally)
}

// No line causes a panic, is counted twice, or corrupts a number.
func FuzzLines(f *testing.F) {
	for line := range bytes.Lines(logOf(aDay()...)) {
		f.Add(line)
	}
	f.Add([]byte(`{"msg":"request","outcome":"shadow","id":"01M7Y9S0G540QS2PPDJ5EB0000","time":"2026-01-01T00:00:00Z","stages":{"called":[{"stage":"\u0000"}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tally := &logreport.Tally{Prices: prices}
		r := read(t, tally, text)
		l := r.Lines
		if l.Requests+l.Before+l.Other+l.Broken != l.Read {
			t.Errorf("lines are missing: %+v", l)
		}
		if g := r.All; g.Requests != l.Requests || g.InjectedShare < 0 || g.InjectedShare > 1 || g.Tokens.Context < 0 || g.Cost.USD < 0 {
			t.Errorf("impossible: %+v", g)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
		var page bytes.Buffer
		r.Print(&page)
		for _, c := range page.String() {
			if c < ' ' && c != '\n' || c == 0x7f || c == 0x202e {
				t.Fatalf("%q could change a terminal: %q", c, page.String())
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	line := logOf(chatAbout(1, "support", rewrite.Injected, "", 1200))
	tally := &logreport.Tally{Prices: prices}
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		tally.Add(line)
	}
}

// Requests are priced by what they wrote into the upstream's cache, and by their service tier.
func TestCostOfCacheWritesAndTiers(t *testing.T) {
	table := budget.PriceTable{{
		Match:  "gpt-5*",
		Prices: must(budget.PriceText{Input: "5", CachedInput: "0.5", CacheWrite: "6.25", CacheWrite1h: "10", Output: "30"}.Parse()),
		Tiers:  map[string]budget.Prices{"priority": must(budget.ParsePrices("10", "", "60"))},
	}}
	r := chatAbout(1, "sales", rewrite.Injected, "", 0)
	r.Usage = answer.Usage{Input: 6185, CacheWrite: 6000, CacheWrite1h: 1000, Output: 10, Known: true}
	written := read(t, &logreport.Tally{Prices: table}, logOf(r))
	if got, want := written.All.Cost.USD, (185*5+5000*6.25+1000*10+10*30)/1e6; math.Abs(got-want) > 1e-9 || written.All.Tokens.CacheWrite != 6000 {
		t.Errorf("cost %v, want %v; %+v", got, want, written.All.Tokens)
	}
	var page bytes.Buffer
	written.Print(&page)
	if !strings.Contains(page.String(), "6,185 input, 0.0 % of it cached, 6,000 written to the cache, 10 output") {
		t.Error(page.String())
	}
	r.Budget.Tier = "priority"
	if got, want := read(t, &logreport.Tally{Prices: table}, logOf(r)).All.Cost.USD, (6185*10+10*60)/1e6; math.Abs(got-want) > 1e-9 {
		t.Errorf("priority costs %v, want %v", got, want)
	}
}

// The diagnoses of upstreams are counted by reason.
func TestCacheMisses(t *testing.T) {
	var all []*report.Report
	for i, reason := range []answer.CacheMiss{answer.CacheMissSystem, answer.CacheMissNone, "", answer.CacheMissSystem} {
		r := chatAbout(i, "support", rewrite.Injected, "", 100)
		r.CacheMiss.Reason = reason
		all = append(all, r)
	}
	got := read(t, new(logreport.Tally), logOf(all...))
	if diff := cmp.Diff([]logreport.Reason{{Reason: "system_changed", Requests: 2}, {Reason: "none", Requests: 1}}, got.Misses); diff != "" {
		t.Error(diff)
	}
	var page bytes.Buffer
	got.Print(&page)
	if want := "\ncache miss system_changed                       2\ncache miss none                                 1\n"; !strings.Contains(page.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", page.String(), want)
	}
}

// Added tokens cost what the cache made of them, by the tier's prices; without a configuration, what
// the log says.
func TestCostOfAddedTokens(t *testing.T) {
	table := budget.PriceTable{{
		Match:  "gpt-5*",
		Prices: must(budget.PriceText{Input: "5", CachedInput: "0.5", CacheWrite: "6.25", CacheWrite1h: "10", Output: "30"}.Parse()),
		Tiers:  map[string]budget.Prices{"flex": must(budget.PriceText{Input: "2.5", CachedInput: "0.25", CacheWrite: "3.125", CacheWrite1h: "5", Output: "15"}.Parse())},
	}}
	r := chatAbout(1, "sales", rewrite.Injected, "", 1000)
	r.Usage = answer.Usage{Input: 5000, CachedInput: 3000, CacheWrite: 1500, CacheWrite1h: 500, Output: 10, Known: true}
	r.Context = report.ContextUsage{Tokens: budget.Tokens{Input: 1000, CachedInput: 300, CacheWrite: 600, CacheWrite1h: 200}, Cost: budget.Dollar / 400, Priced: true}
	f := func(prices budget.PriceTable, tier string, want float64) {
		t.Helper()
		r.Budget.Tier = tier
		got := read(t, &logreport.Tally{Prices: prices}, logOf(r))
		for _, g := range []logreport.Group{got.All, got.Tenants[0], got.Policies[0], got.Models[0]} {
			if g.Cost == nil || math.Abs(g.Cost.ContextUSD-want) > 1e-12 || g.CachedShare != .6 || g.ContextCached != .3 || g.Tokens.ContextCacheWrite != 600 {
				t.Errorf("%q: got %+v, want %v; %+v", tier, g.Cost, want, g)
			}
		}
	}
	f(table, "", (100*5+300*.5+400*6.25+200*10)/1e6)
	f(table, "flex", (100*2.5+300*.25+400*3.125+200*5)/1e6)
	f(table, "unknown", (100*5+300*.5+400*6.25+200*10)/1e6)
	f(nil, "", .0025)
}
