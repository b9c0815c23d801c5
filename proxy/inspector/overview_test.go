package inspector_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/cacheguard"
	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// busy returns an hour with requests of all outcomes, whose questions are kept.
func busy() inspector.Data {
	ring := explain.New(500, explain.BodiesFull)
	var all []*report.Report
	for minute := 59; minute >= 0; minute-- {
		for n := range 20 + (minute*7)%30 {
			of := endedAgo(fmt.Sprint("r", minute, "-", n), minute)
			of.Overhead = time.Duration(3+(minute*n)%9) * time.Millisecond
			switch {
			case n%11 == 3:
				unanswered(of, ring, "Which submarine engines corrode?")
			case n%13 == 5:
				of.Outcome, of.Reason, of.Overhead = rewrite.Refused, report.ReasonQuota, 0
			case minute < 9 && n%5 == 1:
				of.Outcome, of.Reason = report.Failed, report.ReasonUpstreamTimeout
			case n%7 == 2:
				of.Outcome = report.WithTools
			case n%17 == 2:
				of.Outcome = report.Relayed
			default:
				of.Usage = answer.Usage{Input: 2100, CachedInput: 900, Output: 180, Known: true}
				of.Context = report.ContextUsage{Tokens: budget.Tokens{Input: 400, CachedInput: 100}, Cost: budget.Dollar / 1000, Priced: true}
				of.Budget.Charged.Money = 1_250_000
			}
			all = append(all, of)
		}
	}
	for _, question := range []string{"How do I reset my badge?", "how do I reset  my badge?", "May I bring a dog?"} {
		of := endedAgo(question, 1)
		unanswered(of, ring, question)
		all = append(all, of)
	}
	for _, of := range all {
		ring.Record(of)
	}
	return inspector.Data{Requests: ring, Overview: lastHour(ring, all...)}
}

func endedAgo(id string, minutes int) *report.Report {
	of := requestOf(id)
	of.Route, of.Time = route.Chat, time.Now().Add(-time.Duration(minutes)*time.Minute)
	return of
}

// unanswered makes a request one whose search found nothing.
func unanswered(of *report.Report, ring *explain.Ring, question string) {
	of.Outcome, of.Reason, of.Rewrite.Ledger.Sources = rewrite.Untouched, rewrite.ReasonNoMatch, nil
	of.Rewrite.Retrieval = retrieval.Result{Cache: retrieval.CacheMiss, Bases: []retrieval.Ref{{Knowledge: "handbook"}, {Knowledge: "faq"}}}
	ring.Received(of, fmt.Appendf(nil, `{"messages":[{"role":"user","content":%q}]}`, question))
}

// hostileHour has hostile texts wherever one can come from outside, in the maximum number and
// length shown, and every outcome in every minute.
func hostileHour() inspector.Data {
	ring := explain.New(500, explain.BodiesFull)
	var all []*report.Report
	for n := range 100 {
		of := hostileRequest()
		of.ID, of.Route, of.Time = fmt.Sprint("hostile", n), route.Chat, time.Now()
		of.Rewrite.Ledger.Sources[0].Doc = fmt.Sprint(n, hostile, strings.Repeat("\u202E", 1000))
		all = append(all, of)
		miss := endedAgo(fmt.Sprint("missed", n), 0)
		miss.Tenant = hostile
		unanswered(miss, ring, fmt.Sprint(n))
		ring.Received(miss, fmt.Appendf(nil, `{"messages":[{"role":"user","content":"%d %s"}]}`, n, strings.Repeat(`<script>alert(1)</script>\u202e`, 1000)))
		miss.Rewrite.Retrieval.Bases = []retrieval.Ref{{Knowledge: hostile}, {Knowledge: hostile + strings.Repeat("x", 256<<10)}}
		all = append(all, miss)
	}
	for minute := range 60 {
		for _, o := range lastHour(nil)().Outcomes {
			of := endedAgo("x", minute)
			of.Outcome = o.Outcome
			all = append(all, of)
		}
	}
	for _, of := range all {
		ring.Record(of)
	}
	overview := lastHour(ring, all...)
	return inspector.Data{Requests: ring, Overview: func() *explain.Overview {
		v := overview()
		for n := range 1000 { // their names are configured
			v.CacheGuard = append(v.CacheGuard, cacheguard.Status{Key: cacheguard.Key{Upstream: "upstream", Model: fmt.Sprint("model", n)}, Placement: "system"})
		}
		return v
	}}
}

// The overview summarizes the last hour in figures, charts and lists, each with links to its
// requests.
func TestOverview(t *testing.T) {
	tb := openTab(t, serve(t, busy(), nil))
	tb.open("/")
	if got := eval[string](tb, `location.pathname + " " + document.querySelector("nav [aria-current]").textContent`); got != "/overview Overview" {
		t.Errorf("the start: %s", got)
	}
	text := func(selector string) string {
		t.Helper()
		return eval[string](tb, fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.textContent.trim().replace(/\s+/g, " ")).join("; ")`, selector))
	}
	// Columns have the proportions of their minutes, and their segments are stacked without gaps.
	if got := eval[bool](tb, `[...document.querySelectorAll("svg.minutes")].every((svg) => [...svg.querySelectorAll("g")].every((g) => {
		let y = 100;
		for (const r of g.querySelectorAll("rect")) {
			if (Math.abs(r.y.baseVal.value + r.height.baseVal.value - y) > 0.2) return false;
			y = r.y.baseVal.value;
		}
		return y >= -0.1 && g.querySelector("title").textContent !== "";
	})) && document.querySelectorAll("svg.minutes g").length >= 118`); !got {
		t.Error("the parts of a column do not lie on each other")
	}
	if got := text(".questions tbody tr:nth-child(-n+3)"); !strings.HasPrefix(got, "Which submarine engines corrode? 97") || !strings.Contains(got, "; how do I reset my badge? 2 ") && !strings.Contains(got, "; How do I reset my badge? 2 ") || !strings.Contains(got, "acme handbook, faq no-match") {
		t.Errorf("questions: %s", got)
	}
	if got := text("h2"); got != "Requests by minute; Added latency by minute; Prompt caches; Errors; Requests without sources; Questions without a match; Most used documents" {
		t.Errorf("headings: %s", got)
	}
	if got := text("#prompts tbody tr td:nth-child(n+6)"); !strings.HasPrefix(got, "43 %; ") || !strings.Contains(got, "; 25 %; ") { // how many depends on the minute
		t.Errorf("prompt caches: %s", got)
	}
	if got := text(".figures div:nth-child(6) dd"); !strings.Contains(got, "(43 % cached)") {
		t.Errorf("tokens used: %s", got)
	}
	if got := text(".pair tbody"); got != "refused quota166 failed upstream-timeout54; untouched no-match201" {
		t.Errorf("reasons: %s", got)
	}
	if got := eval[string](tb, `[...document.querySelectorAll('tbody th a[href^="/knowledge/"]')].map((a) => a.textContent + " " + new URL(a.href).searchParams.get("id")).join()`); got != `a\"b a\"b,it.md it.md,leave.md leave.md,überstunden.md überstunden.md` {
		t.Errorf("documents: %s", got)
	}
	// The table has the same figures as the chart.
	tb.do(chromedp.Click("summary"))
	if got := eval[bool](tb, `(() => {
		const sum = (n) => [...document.querySelectorAll("#figures tbody tr")].reduce((s, r) => s + Number(r.cells[n].textContent.replaceAll(",", "")), 0);
		const total = document.querySelector(".figures strong").textContent.replaceAll(",", "");
		const legend = [...document.querySelectorAll(".legend")[0].querySelectorAll(".number")].map((e) => Number(e.textContent.replaceAll(",", "")));
		return sum(1) === Number(total) && legend.every((n, k) => sum(k + 2) === n) && legend.reduce((a, b) => a + b) === Number(total);
	})()`); !got {
		t.Errorf("the table differs from the drawing: %s", text("#figures tbody tr"))
	}
	tb.do(chromedp.Click(`a[href="/requests?outcome=failed&text=reason%3Dupstream-timeout"]`), chromedp.WaitVisible("#requests"))
	if got := eval[bool](tb, `[...document.querySelectorAll("#requests tbody tr")].length > 10 && [...document.querySelectorAll("#requests .tone")].every((e) => e.textContent === "failed")`); !got {
		t.Errorf("failures: %s", text("#requests .tone"))
	}
}

// The overview refreshes itself, keeps opened parts open and the focus where it was. While paused
// it does not refresh.
func TestOverviewIsLive(t *testing.T) {
	ring, o := explain.New(500, explain.BodiesFull), explain.NewRecorder()
	record := func(question string) {
		of := endedAgo(question, 0)
		unanswered(of, ring, question)
		ring.Record(of)
		o.Record(of)
	}
	record("one")
	tb := openTab(t, serve(t, inspector.Data{Requests: ring, Overview: func() *explain.Overview { return o.View(time.Now(), ring) }}, nil))
	tb.open("/overview")
	const asked = `[...document.querySelectorAll(".questions tbody th")].map((e) => e.textContent).join()`
	if got := eval[string](tb, asked+` + document.getElementById("live").textContent`); got != "oneLive, every 5 seconds." {
		t.Errorf("at first: %s", got)
	}
	eval[bool](tb, `(document.querySelector(".questions a").focus(), document.getElementById("figures").open = true)`)
	const seen = `document.dispatchEvent(new Event("visibilitychange"))` // the page refreshes at once
	record("two")
	eval[bool](tb, seen)
	tb.until(asked + ` === "two,one"`)
	if got := eval[string](tb, `document.activeElement.pathname + document.getElementById("figures").open`); got != "/requests/onetrue" {
		t.Errorf("what was opened, and the keyboard's place: %s", got)
	}
	tb.do(chromedp.Click("#pause"))
	record("three")
	eval[bool](tb, seen)
	if got := eval[string](tb, asked+` + document.getElementById("live").textContent`); got != "two,onePaused." {
		t.Errorf("paused: %s", got)
	}
	tb.do(chromedp.Click("#pause"))
	tb.until(asked + ` === "three,two,one"`)
}

// Without texts the page says how to keep them, and does not link to requests that are not kept.
func TestOverviewWithoutTexts(t *testing.T) {
	of := endedAgo("a", 0)
	unanswered(of, explain.New(1, explain.BodiesOff), "which?")
	for name, c := range map[string]struct {
		ring *explain.Ring
		says string
		link bool
	}{
		"off":      {explain.New(1, explain.BodiesOff), "<code>explain: {bodies: full}</code> keeps those of the last requests.", true},
		"redacted": {explain.New(1, explain.BodiesRedacted), "<code>explain: {bodies: full}</code> keeps those of the last requests.", true},
		"none":     {nil, "with <code>explain.keep</code> above 0.", false},
	} {
		data := inspector.Data{Requests: c.ring, Overview: lastHour(c.ring, of)}
		if c.ring != nil {
			c.ring.Record(of)
		}
		a := ask(t, "GET", serve(t, data, nil)+"/overview", "")
		if !strings.Contains(a.body, c.says) || !strings.Contains(a.body, "its text is not kept") || strings.Contains(a.body, `href="/requests/a"`) != c.link {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

// Upstreams that truncate prompts are listed with the observed window and the remedy; others are
// not.
func TestOverviewShowsServedWindows(t *testing.T) {
	learnt := model.NewTracker()
	for range 6 {
		learnt.Observe(model.CalibrationKey{Tenant: "acme", Upstream: "local", Row: "llama3.1*", Name: "llama3.1:8b"}, 6000, 2048)
		learnt.Observe(model.CalibrationKey{Tenant: "acme", Upstream: "cloud", Row: "gpt-5*", Name: "gpt-5-mini"}, 6000, 6100)
	}
	a := ask(t, "GET", serve(t, inspector.Data{Learnt: learnt}, nil)+"/overview", "")
	for _, part := range []string{"Truncated prompts", "OLLAMA_CONTEXT_LENGTH", "llama3.1:8b", "local", "acme", "2,048"} {
		if !strings.Contains(a.body, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if strings.Contains(a.body, "gpt-5-mini") {
		t.Error("an upstream that truncates nothing is listed")
	}
	if a := ask(t, "GET", serve(t, inspector.Data{Learnt: model.NewTracker()}, nil)+"/overview", ""); strings.Contains(a.body, "Truncated prompts") {
		t.Error("the page has a table without rows")
	}
}

// The cache guard lists prompt caches with both shares; those that sources break come first.
func TestOverviewShowsCacheGuard(t *testing.T) {
	overview := lastHour(nil)
	page := func(caches ...cacheguard.Status) string {
		return ask(t, "GET", serve(t, inspector.Data{Overview: func() *explain.Overview {
			v := overview()
			v.CacheGuard = caches
			return v
		}}, nil)+"/overview", "").body
	}
	of := func(model string, s cacheguard.State, c cacheguard.Comparison) cacheguard.Status {
		return cacheguard.Status{Key: cacheguard.Key{Upstream: "cloud", Model: model}, State: s, Placement: "system", Comparison: c}
	}
	body := page(of("gpt-4o*", cacheguard.Fine, cacheguard.Comparison{Share: 0.7, Expected: 0.61, Requests: 133}),
		of("o3*", cacheguard.Fine, cacheguard.Comparison{Share: 0.1, Expected: 0.6, Requests: 12}),
		of("gpt-5*", cacheguard.Switched, cacheguard.Comparison{Share: 0.12, Expected: 0.83, Requests: 1234, Controls: 50}))
	for _, part := range []string{"Cache guard", "cloud", "system", ">12 %<", ">83 %<", "1,234", "switched", ">70 %<", "61 % (assumed)", "fine", "too few requests"} {
		if !strings.Contains(body, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
	if strings.Index(body, "gpt-5*") > strings.Index(body, "gpt-4o*") {
		t.Error("a cache that sources break is not the first")
	}
	if strings.Contains(page(), "Cache guard") {
		t.Error("the page has a table without rows")
	}
}

// However hostile and long its texts are, the page is small and quickly made.
func TestOverviewIsSmall(t *testing.T) {
	address := serve(t, hostileHour(), nil) + "/overview"
	if a := ask(t, "GET", address, ""); len(a.body) > 220_000 || strings.Contains(a.body, "<script>") || strings.ContainsAny(a.body, "\u202E\u2066\u200B\x00\x1B\r") {
		t.Errorf("%d bytes: %.1000s", len(a.body), a.body)
	}
}

// BenchmarkPages measures pages: the overview of an hour full of questions, the list of 10,000
// requests, and one of them whose texts are long and hostile.
func BenchmarkPages(b *testing.B) {
	data := hostileHour()
	ring := explain.New(10_000, explain.BodiesFull)
	for i := range 10_000 {
		ring.Record(requestOf(fmt.Sprint(i)))
	}
	ring.Record(hostileRequest())
	data.Requests = ring
	address := serve(b, data, nil)
	for _, path := range []string{"/overview", "/requests", "/requests?text=nothing", "/requests/hostile"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if a := ask(b, "GET", address+path, ""); a.code != 200 {
					b.Fatal(a.code)
				}
			}
		})
	}
}
