package report_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
	"pgregory.net/rapid"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chunks"
)

// T29: a line that is written directly equals that of slog's JSON handler, except for its time;
// names with any bytes stay text within one line.
func TestLineIsSlogs(t *testing.T) {
	odd := reporttest.Injected()
	odd.Tenant, odd.Policy, odd.Upstream = "a\"b\\c\n", "</é\u2028>&", "\xff"
	odd.Overhead, odd.TTFB, odd.Total = time.Nanosecond, 10*time.Minute, 1234567*time.Microsecond
	odd.Rewrite.Ledger.Exactness = rewrite.Bound
	reports := []*report.Report{reporttest.Injected(), {}, odd}
	for _, change := range []func(*report.Report){ // each differs from the one before in one name
		func(r *report.Report) { r.Tenant = "acme" }, func(r *report.Report) { r.Policy = "base" }, func(r *report.Report) { r.PolicyHash = "12" },
		func(r *report.Report) { r.TraceID = trace.TraceID{0xa, 0xff} }, func(r *report.Report) { r.RequestID = "app-7</>" },
		func(r *report.Report) { r.Calls = []report.Call{{RequestID: "req_0"}, {RequestID: "req_1"}} }, func(r *report.Report) { r.Calls = nil },
		func(r *report.Report) { r.By = report.ByKey }, func(r *report.Report) { r.Key = "chat-app" },
		func(r *report.Report) { r.Denied = "key-expired" },
		func(r *report.Report) { r.Address = netip.MustParseAddr("2001:db8::1") }, func(r *report.Report) { r.Address = netip.MustParseAddr("192.0.2.1") },
		func(r *report.Report) { r.Upstream = "openai" }, func(r *report.Report) { r.Route = route.Chat }, func(r *report.Report) { r.Stream = true },
		func(r *report.Report) { r.UsageFound = answer.UsageAbsent },
		func(r *report.Report) { r.Rewrite.Ledger.Chunks = &chunks.Ledger{In: 12, Total: 15, Tokens: 1390} },
		func(r *report.Report) {
			r.Rewrite.Retrieval.Bases = []retrieval.Ref{{Knowledge: "handbook", Generation: "12"}}
		},
		func(r *report.Report) {
			r.Rewrite.Retrieval.Bases = append(r.Rewrite.Retrieval.Bases, retrieval.Ref{Knowledge: "a\"b"})
		},
		func(r *report.Report) { r.Generated = answer.CountedUsage{Output: 30, Known: true} },
		func(r *report.Report) { r.ToolsSkipped = "tool-choice" },
		func(r *report.Report) {
			r.ToolsSkipped, r.Tools = "", &report.Tools{Rounds: 3, Restored: 1, TurnLoss: report.TurnTooLarge, CallsOmitted: 2, Tokens: 80, Calls: []report.ToolCall{{Name: "recall", Arguments: `{"query":"a question of a user"}`}}, Sources: make([]rewrite.SourceEntry, 2)}
		},
		func(r *report.Report) { r.StagesSkipped, r.Tools = "client-tools", nil },
		func(r *report.Report) {
			r.StagesSkipped, r.Stages = "", &report.Stages{Total: 4, Answer: "draft", Called: []report.Stage{
				{Name: "draft", Outcome: report.StageOK, Calls: 1, Took: 1234567 * time.Nanosecond, Usage: answer.Usage{Input: 900, Output: 120}, Request: []byte("a question of a user"), Output: "an answer"},
				{Name: "critic", Outcome: report.StageTimeout, Calls: 2, Took: time.Minute},
			}}
		},
		func(r *report.Report) {
			r.Stages = &report.Stages{Total: 2, Called: []report.Stage{{Name: "evidence", Outcome: report.StageEmpty}}}
		},
		func(r *report.Report) {
			r.Stages = &report.Stages{Total: 2, Answer: "a", Called: []report.Stage{{Name: "a"}, {Name: "b", Outcome: report.StageStopped}}}
		},
		func(r *report.Report) {
			r.Stages = &report.Stages{Total: 1, Answer: "a", Called: []report.Stage{{Name: "a", Outcome: report.StageOK}}}
		},
		func(r *report.Report) { r.Stages = &report.Stages{Total: 1} },
		func(r *report.Report) {
			r.UsageFound, r.Usage = answer.UsageFound, answer.Usage{Input: 19, CachedInput: 7, CacheWrite: 6, CacheWrite1h: 2, Output: 10, Known: true}
		},
		func(r *report.Report) { r.Usage.CacheWrite1h = 0 },
		func(r *report.Report) { r.CacheMiss = report.CacheMiss{Reason: answer.CacheMissSystem, Tokens: 700} },
		func(r *report.Report) { r.Context.Tokens = budget.Tokens{Input: 12, CachedInput: 3} },
		func(r *report.Report) {
			r.Context = report.ContextUsage{Tokens: budget.Tokens{Input: 12, CachedInput: 3, CacheWrite: 5, CacheWrite1h: 2}}
		},
		func(r *report.Report) { r.Context, r.UsageDetail = report.ContextUsage{}, "input 9, of it cached 10" },
		func(r *report.Report) { r.Budget.Tier = "priority \"1\"" },
		func(r *report.Report) {
			r.Budget.Tier, r.UsageFound, r.Usage = "", answer.UsageFound, answer.Usage{Input: 19, CachedInput: 7, Output: 10, Reasoning: 3, Known: true}
		},
	} {
		r := *reports[len(reports)-1]
		change(&r)
		reports = append(reports, &r)
	}
	for c := range 256 { // any byte, at any position of the eight that are checked at once
		if c == '\b' || c == '\f' {
			continue // JSON has two escapes for these
		}
		r := reporttest.Injected()
		for at := range 17 {
			r.Tenant += "x"
			if at == c%17 {
				r.Tenant += string([]byte{byte(c)})
			}
		}
		reports = append(reports, r)
	}
	var direct, through bytes.Buffer
	lines := &report.Log{Lines: &direct, Logger: slog.New(slog.DiscardHandler)}
	defer lines.Close()
	slogs := slog.New(slog.NewJSONHandler(&through, nil))
	for _, r := range reports {
		direct.Reset()
		through.Reset()
		lines.Record(r)
		slogs.LogAttrs(t.Context(), slog.LevelInfo, "request", attrs(r)...)
		if diff := cmp.Diff(fields(t, through.Bytes()), fields(t, direct.Bytes())); diff != "" {
			t.Errorf("(-slog +direct):\n%s", diff)
		}
		if got, want := timeless(direct.Bytes()), timeless(through.Bytes()); !bytes.Equal(got, want) {
			t.Errorf("order or form differ\ngot  %s\nwant %s", got, want)
		}
	}
}

// A line's time is the end of the answer, independently of earlier lines, and its durations are
// formatted as by slog.
func TestLineTimes(t *testing.T) {
	var out bytes.Buffer
	var l *report.Log
	start := time.Date(2026, 10, 25, 0, 59, 59, 999_999_999, time.UTC)
	check := func(at time.Time, took time.Duration) {
		t.Helper()
		out.Reset()
		l.Record(&report.Report{Time: at, Total: took})
		var got map[string]json.RawMessage
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, out.Bytes())
		}
		if want := strconv.Quote(at.Add(took).Format(time.RFC3339Nano)); string(got["time"]) != want {
			t.Errorf("got time %s, want %s", got["time"], want)
		}
		want, err := json.Marshal(float64(took.Microseconds()) / 1e3)
		if err != nil {
			t.Fatal(err)
		}
		if string(got["duration_ms"]) != string(want) {
			t.Errorf("%v: got duration_ms %s, want %s", took, got["duration_ms"], want)
		}
	}
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("", -3*3600-1800), time.FixedZone("", 7*3600)} {
		l = &report.Log{Lines: &out} // a new one, as a Log expects a single time zone
		for _, took := range []time.Duration{
			0, 1, 999, time.Microsecond, 10 * time.Microsecond, 120 * time.Microsecond, 999_001 * time.Nanosecond, time.Millisecond,
			1050 * time.Microsecond, time.Second - time.Nanosecond, time.Second, 90 * time.Minute, 2*time.Hour + 1, -time.Microsecond,
		} {
			check(start.In(zone), took)
		}
	}
	l = &report.Log{Lines: &out}
	rapid.Check(t, func(r *rapid.T) {
		check(start.Add(time.Duration(rapid.Int64Range(0, 1e18).Draw(r, "after"))), time.Duration(rapid.Int64Range(0, 1e15).Draw(r, "took")))
	})
}

// stagesOf returns the attributes for the stages in r's line.
func stagesOf(r *report.Report) (list []slog.Attr) {
	if r.StagesSkipped != "" {
		list = append(list, slog.String("unstaged", r.StagesSkipped))
	}
	s := r.Stages
	if s == nil {
		return list
	}
	type stage struct {
		Name    string  `json:"stage"`
		Outcome string  `json:"outcome"`
		Calls   int     `json:"calls"`
		Took    float64 `json:"duration_ms"`
		Input   int64   `json:"input_tokens"`
		Output  int64   `json:"output_tokens"`
	}
	called, in := []stage{}, []any{slog.Int("of", s.Total)}
	for _, c := range s.Called {
		called = append(called, stage{c.Name, string(c.Outcome), c.Calls, milliseconds(c.Took), c.Usage.Input, c.Usage.Output})
		switch c.Outcome {
		case report.StageTimeout:
			in = append(in, slog.String("failed", c.Name), slog.String("failure", "timeout"))
		case report.StageEmpty, report.StageStopped:
			in = append(in, slog.String(string(c.Outcome), c.Name))
		}
	}
	if s.Answer != "" {
		in = append(in, slog.String("answered", s.Answer))
	}
	return append(list, slog.Group("stages", append(in, slog.Any("called", called))...))
}

// contextAttrs returns the attributes of what the usage has of added tokens.
func contextAttrs(c *report.ContextUsage) (list []slog.Attr) {
	if c.Input == 0 {
		return nil
	}
	list = []slog.Attr{slog.Int64("context_input_tokens", c.Input), slog.Int64("context_cached_tokens", c.CachedInput)}
	if c.CacheWrite > 0 {
		list = append(list, slog.Int64("context_cache_write_tokens", c.CacheWrite), slog.Int64("context_cache_write_1h_tokens", c.CacheWrite1h))
	}
	return list
}

// attrs returns the attributes of r's line, in order.
func attrs(r *report.Report) []slog.Attr {
	l := &r.Rewrite.Ledger
	var used []slog.Attr
	if r.UsageFound != "" {
		used = []slog.Attr{slog.String("usage", string(r.UsageFound))}
		if r.UsageDetail != "" {
			used = append(used, slog.String("usage_detail", r.UsageDetail))
		}
		used = append(used, slog.Int64("input_tokens", r.Usage.Input), slog.Int64("cached_input_tokens", r.Usage.CachedInput))
		if r.Usage.CacheWrite > 0 {
			used = append(used, slog.Int64("cache_write_tokens", r.Usage.CacheWrite))
		}
		if r.Usage.CacheWrite1h > 0 {
			used = append(used, slog.Int64("cache_write_1h_tokens", r.Usage.CacheWrite1h))
		}
		used = append(used, slog.Int64("output_tokens", r.Usage.Output), slog.Int64("reasoning_tokens", r.Usage.Reasoning))
		if r.Generated.Known {
			used = append(used, slog.Int64("counted_output_tokens", r.Generated.Output))
		}
		if m := r.CacheMiss; m.Reason != "" {
			used = append(used, slog.String("cache_miss", string(m.Reason)), slog.Int64("cache_missed_tokens", m.Tokens))
		}
		used = append(used, contextAttrs(&r.Context)...)
	}
	if r.Budget.Tier != "" {
		used = append(used, slog.String("service_tier", r.Budget.Tier))
	}
	var assembled []slog.Attr
	if a := l.Assembled; a != nil {
		assembled = []slog.Attr{slog.Group("context_assembled", slog.Int("total_tokens", a.TotalTokens), slog.Int("components", a.Components), slog.Int("overflow", a.Overflow))}
	}
	if c := l.Chunks; c != nil {
		assembled = append(assembled, slog.Group("chunks", slog.Int("included", c.In), slog.Int("total", c.Total), slog.Int("token_count", c.Tokens)))
	}
	if r.ToolsSkipped != "" {
		assembled = append(assembled, slog.String("unoffered", r.ToolsSkipped))
	}
	if u := r.Tools; u != nil {
		assembled = append(assembled, slog.Group("tools", slog.Int("rounds", u.Rounds), slog.Int("calls", u.Called()), slog.Int("tokens", u.Tokens), slog.Int("sources", len(u.Sources)), slog.Int("restored", u.Restored), slog.String("unkept", string(u.TurnLoss))))
	}
	assembled = append(assembled, stagesOf(r)...)
	return slices.Concat([]slog.Attr{slog.String("id", r.ID)}, idsOf(r), []slog.Attr{
		slog.String("tenant", r.Tenant),
		slog.String("by", string(r.By)),
		slog.String("key", r.Key),
		slog.String("denied", r.Denied),
		slog.String("policy", r.Policy),
		slog.String("policy_hash", r.PolicyHash),
		slog.String("upstream", r.Upstream),
		slog.String("route", string(r.Route)),
	}, apiOf(r), []slog.Attr{
		slog.String("model", r.Model()),
		slog.Bool("stream", r.Stream),
		slog.Int("status", r.Status),
		slog.String("outcome", string(r.Outcome)),
		slog.String("reason", string(r.Reason)),
		slog.Int("sources", r.Sources()),
		slog.Int("context_tokens", l.Used),
		slog.Int("context_budget", l.Budget),
	}, assembled, []slog.Attr{
		slog.String("exact", string(l.Exactness)),
		slog.String("cache", string(r.Rewrite.Retrieval.Cache)),
		slog.String("planner", "off"),
	}, knowledgeOf(r), []slog.Attr{
		slog.Float64("overhead_ms", milliseconds(r.Overhead)),
		slog.Float64("retrieval_ms", milliseconds(r.Rewrite.RetrieveTook)),
		slog.Float64("ttfb_ms", milliseconds(r.TTFB)),
		slog.Float64("duration_ms", milliseconds(r.Total)),
	}, used, []slog.Attr{
		slog.Bool("truncated", r.Truncated),
		slog.Bool("retried", r.Retried()),
		slog.String("address", shown(r.Address)),
		slog.String("client", string(r.Client)),
	})
}

// knowledgeOf returns the attributes for the searched bases in r's line.
func knowledgeOf(r *report.Report) []slog.Attr {
	var ids []string
	for _, b := range r.Rewrite.Retrieval.Bases {
		ids = append(ids, b.Knowledge)
	}
	if ids == nil {
		return nil
	}
	return []slog.Attr{slog.Any("knowledge", ids)}
}

// The cost of added tokens is logged in exact dollars if it is known, also if there is none.
func TestLineTellsTheCostOfAddedTokens(t *testing.T) {
	f := func(c report.ContextUsage, want string) {
		t.Helper()
		var out bytes.Buffer
		r := reporttest.Injected()
		r.UsageFound, r.Usage, r.Context = answer.UsageFound, answer.Usage{Input: 100, Known: true}, c
		(&report.Log{Lines: &out}).Record(r)
		if !strings.Contains(out.String(), want) || want == "" && strings.Contains(out.String(), "context_usd") || !json.Valid(out.Bytes()) {
			t.Errorf("%+v: %s", c, out.String())
		}
	}
	tokens := budget.Tokens{Input: 12}
	f(report.ContextUsage{Tokens: tokens}, "")
	f(report.ContextUsage{Tokens: tokens, Priced: true}, `,"context_usd":0.000000000,`)
	f(report.ContextUsage{Tokens: tokens, Priced: true, Cost: 1}, `,"context_usd":0.000000001,`)
	f(report.ContextUsage{Tokens: tokens, Priced: true, Cost: 5 * budget.Dollar / 4}, `,"context_usd":1.250000000,`)
}

// Charges are logged in exact dollars.
func TestLineTellsCharges(t *testing.T) {
	for money, want := range map[int64]string{
		0: "", 1: `,"charged_usd":0.000000001,`, 12_345_678: `,"charged_usd":0.012345678,`, 3*budget.USD + budget.USD/2: `,"charged_usd":3.500000000,`,
	} {
		var out bytes.Buffer
		r := reporttest.Injected()
		r.Budget.Charged.Money = money
		(&report.Log{Lines: &out}).Record(r)
		if got := strings.Contains(out.String(), "charged_usd"); got != (want != "") || !strings.Contains(out.String(), want) || !json.Valid(out.Bytes()) {
			t.Errorf("%d: %s", money, out.String())
		}
	}
}

// shown formats an address as the log does.
func shown(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

func fields(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if _, err := time.Parse(time.RFC3339Nano, m["time"].(string)); err != nil {
		t.Error(err)
	}
	delete(m, "time")
	return m
}

// timeless removes the first member, the time.
func timeless(line []byte) []byte {
	_, rest, _ := bytes.Cut(line, []byte(`,"`))
	return rest
}

func BenchmarkLine(b *testing.B) {
	r := reporttest.Injected()
	r.ID, r.Time = "01ARZ3NDEKTSV4RRFFQ69G5FAV", time.Unix(1_700_000_000, 123_456_789)
	r.Tenant, r.Policy, r.PolicyHash, r.Upstream, r.Route, r.Rewrite.Model.Row = "acme", "base", "00000001", "openai", route.Chat, "gpt-4o"
	r.Overhead, r.TTFB, r.Total = 123*time.Microsecond, 1234567*time.Microsecond, 2234567*time.Microsecond
	l := &report.Log{Lines: io.Discard}
	b.ReportAllocs()
	for b.Loop() {
		l.Record(r)
	}
}

// idsOf returns the ids under which others know a request.
func idsOf(r *report.Report) (all []slog.Attr) {
	ids := r.IDs()
	for _, a := range []slog.Attr{slog.String("trace_id", ids.Trace), slog.String("request_id", ids.Request), slog.String("upstream_request_id", ids.Upstream)} {
		if a.Value.String() != "" {
			all = append(all, a)
		}
	}
	return all
}

// apiOf names the API of requests that are no chat completions.
func apiOf(r *report.Report) []slog.Attr {
	if r.API() == "" {
		return nil
	}
	return []slog.Attr{slog.String("api", r.API())}
}
