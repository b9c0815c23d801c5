package inspector_test

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sidenote/proxy/explain"
	"sidenote/proxy/gaps"
	"sidenote/proxy/inspector"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// visited lists the pages to check, in all their states. Add new pages here.
var visited = []struct {
	name, path string
	data       func() inspector.Data
	token      string // required for reading; "" for none
	says       string // of the console, if the page is an error
	in         string // token to sign in with first
}{
	{name: "overview", path: "/overview", data: busy},
	{name: "overview of nothing", path: "/overview", data: func() inspector.Data { return inspector.Data{} }},
	{name: "hostile overview", path: "/overview", data: hostileHour},
	{name: "requests", path: "/requests", data: many},
	{name: "no request that passes", path: "/requests?tenant=nobody&text=x", data: many},
	{name: "no requests", path: "/requests", data: func() inspector.Data { return inspector.Data{Requests: kept()} }},
	{name: "none are kept", path: "/requests", data: func() inspector.Data { return inspector.Data{} }},
	{name: "a request", path: "/requests/whole", data: askable},
	{name: "a request that was lowered", path: "/requests/lowered", data: tenants},
	{name: "a refused request", path: "/requests/refused", data: many},
	{name: "a request with tools", path: "/requests/tools", data: many},
	{name: "a request in stages", path: "/requests/staged", data: many},
	{name: "hostile", path: "/requests/hostile", data: many},
	{name: "an unknown request", path: "/requests/unknown", data: many, says: "404"},
	{name: "ask again", path: "/requests/whole/ask", data: askable},
	{name: "knowledge", path: "/knowledge", data: knowing},
	{name: "no knowledge", path: "/knowledge", data: func() inspector.Data { return inspector.Data{} }},
	{name: "a search", path: "/knowledge?q=weeks", data: knowing},
	{name: "a base", path: "/knowledge/hr", data: knowing},
	{name: "a base elsewhere", path: "/knowledge/elsewhere", data: knowing},
	{name: "a document", path: "/knowledge/hr/document?id=leave.md&chunk=25#chunk-25", data: knowing},
	{name: "a hostile document", path: "/knowledge/hr/document?id=" + url.QueryEscape(hostile), data: knowing},
	{name: "gaps", path: "/gaps", data: gapsOf(missing("How do I lease a bike?")), in: "admin"},
	{name: "hostile gaps", path: "/gaps?days=30", data: gapsOf(missing(hostile)), in: "admin"},
	{name: "no gaps", path: "/gaps", data: gapsOf(&gaps.Report{}), in: "admin"},
	{name: "nothing is recorded", path: "/gaps", data: func() inspector.Data { return inspector.Data{} }},
	{name: "tenants", path: "/tenants", data: tenants},
	{name: "a tenant", path: "/tenants/acme", data: tenants},
	{name: "a hostile tenant", path: "/tenants/strange", data: tenants},
	{name: "a policy", path: "/policies/careful", data: tenants},
	{name: "experiments", path: "/experiments", data: experiments},
	{name: "no experiments", path: "/experiments", data: func() inspector.Data { return inspector.Data{} }},
	{name: "an experiment", path: "/experiments/longer", data: experiments},
	{name: "an experiment that begins", path: "/experiments/fresh", data: experiments},
	{name: "an unknown experiment", path: "/experiments/none", data: experiments, says: "404"},
	{name: "a request of an experiment", path: "/requests/tried", data: experiments},
	{name: "hostile filter", path: "/requests?" + url.Values{"tenant": {hostile}, "text": {hostile}}.Encode(), data: many},
	{name: "sign in", path: "/requests", data: many, token: "tok"},
}

// hostile is a text that would do harm if it were not escaped.
const hostile = "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>\"'>&lt;b\u202Egnp.exe\u2066\u200B\x00\x1B[31m\r\ndata: x\n\n{{.}}\xff"

// many returns requests of all kinds, by their ids.
func many() inspector.Data {
	r := explain.New(100, explain.BodiesFull)
	for i := range 3 {
		r.Record(requestOf(fmt.Sprint("some", i)))
	}
	for _, of := range []*report.Report{whole(), refused(), withTools(), staged(), hostileRequest()} {
		keepBodies(r, of)
		r.Record(of)
	}
	return inspector.Data{Requests: r}
}

func whole() *report.Report {
	of := requestOf("whole")
	of.Policy, of.PolicyHash, of.Mode, of.Upstream, of.Stream = "base", "c3ca2702", "inject", "openai", true
	of.Overhead, of.TTFB = 4*time.Millisecond, 12*time.Millisecond
	of.Calls = []report.Call{{Upstream: "openai", Purpose: report.ToAnswer, Status: 200, Took: 8 * time.Millisecond}}
	of.Rewrite.FitTook, of.Rewrite.EditTook = 200*time.Microsecond, 40*time.Microsecond
	l := &of.Rewrite.Ledger
	at := strings.Index(received, `"},{"role":"user"`)
	l.Edits, l.Encoding, l.Overflow, l.Model = []rewrite.Edit{{Name: "inject", Offset: at, Insert: [][]byte{[]byte(block)}}}, "o200k_base", 240, "gpt-5-mini"
	l.Window = model.Window{Size: 128_000, Check: model.CheckCount, ReservedOutput: 4096, Request: 9_000, Room: 114_904}
	l.Components = []rewrite.ComponentEntry{{Name: "house-rules", Priority: 90, Inclusion: rewrite.Included, Tokens: 120, Demand: 120}, {Name: rewrite.SourcesName, Inclusion: rewrite.Included, Tokens: 1000}}
	score := .83
	for i := range l.Sources {
		s := &l.Sources[i]
		s.Chunk, s.Score, s.Relevance, s.Arm, s.Inclusion, s.Tokens = i, 11.25-float64(i), .79, "bm25", rewrite.Included, 240
		s.ByArm = retrieval.ArmScores{Words: 12.5 - float32(i), Vector: .71}
		if s.ID == 0 {
			s.Inclusion, s.Tokens, s.Detail = rewrite.Excluded, 0, "duplicate of leave.md#0"
		}
		s.Reranked = &score
	}
	l.Sources[1].Inclusion, l.Sources[1].Demand, l.Sources[1].Detail = rewrite.Cut, 388, "cut to the budget"
	l.Excluded = retrieval.NewExcludedList([]retrieval.Excluded{{Knowledge: "handbook", Doc: "travel.md", Name: "Travel", Score: 1.1, Relevance: .27, Reason: retrieval.ExcludedScore, MinScore: 3}})
	of.Rewrite.Retrieval.Cache, of.Rewrite.Retrieval.CacheKey, of.Rewrite.FitCached = retrieval.CacheMiss, 0x3f2a9c1b, true
	of.Rewrite.Retrieval.Lookups = []retrieval.Lookup{
		{Knowledge: "handbook", Others: 1, State: retrieval.CacheHit, Key: 0xc0ffee}, {Knowledge: "handbook", Others: 1, Query: 1, State: retrieval.CacheMiss, Key: 7},
	}
	l.Planned = &retrieval.Planned{Enabled: true, Fallback: retrieval.PlanOK, Cached: true, Took: 3 * time.Millisecond}
	l.Notes = []string{"context_tokens is cut to the policy's 2000"}
	return of
}

func refused() *report.Report {
	return &report.Report{ID: "refused", Time: time.Now(), Status: 401, Outcome: rewrite.Refused, Reason: report.ReasonKey}
}

func withTools() *report.Report {
	of := whole()
	of.ID, of.Outcome = "tools", report.WithTools
	of.Calls = append(of.Calls, report.Call{Upstream: "openai", Purpose: report.ToTools, Status: 200, Took: 7 * time.Millisecond})
	of.Tools = &report.Tools{Rounds: 2, Ended: true}
	of.Tools.StartAt(5)
	of.Tools.Add(report.ToolCall{Round: 1, Name: "search", Arguments: `{"query": "pay on leave"}`, Hits: 1, Tokens: 300, Took: 2 * time.Millisecond, Outcome: report.ToolOK},
		[]retrieval.Source{{Knowledge: "handbook", Doc: "pay.md", Chunk: 2, Name: "Pay", Relevance: .6}})
	return of
}

func staged() *report.Report {
	of := whole()
	of.ID, of.Outcome = "staged", report.Staged
	of.Stages = &report.Stages{Total: 2, Answer: "final", Ended: true, Called: []report.Stage{
		{Name: "draft", At: 1, Model: "gpt-5", Upstream: "openai", Calls: 1, Status: 200, Took: 5 * time.Millisecond, Outcome: report.StageOK, Request: []byte(received), Output: "Two weeks.\n\nAsk HR."},
		{Name: "final", At: 2, Model: "gpt-5", Upstream: "openai", Calls: 1, Status: 200, Took: 6 * time.Millisecond, Outcome: report.StageOK},
	}}
	return of
}

// hostileRequest has a hostile text wherever one can come from outside, and long ones.
func hostileRequest() *report.Report {
	of := whole()
	of.ID, of.Tenant, of.Policy = "hostile", hostile, hostile
	of.Rewrite.Model.Row, of.Rewrite.Ledger.Model, of.Upstream = hostile, hostile, hostile
	of.Calls[0].Upstream, of.Rewrite.Ledger.Notes = hostile, []string{hostile}
	line := strings.Repeat("x", 256<<10) // in one line
	for i := range of.Rewrite.Ledger.Sources {
		s := &of.Rewrite.Ledger.Sources[i]
		s.Knowledge, s.Doc, s.Name, s.Section, s.Detail = hostile, hostile, hostile+line, line, hostile
	}
	return of
}

// raw finds invisible or reordering characters that a page shows unescaped, and images and scripts
// that are not its own.
const raw = `(document.documentElement.textContent.match(/[\u0000-\u0008\u000B-\u001F\u200B\u202A-\u202E\u2066-\u2069]/g) || []).join("") +
	[...document.querySelectorAll("img, iframe, script:not([src^='/site/'])")].map((e) => e.outerHTML).join("")`

// Every page is accessible: see check.
func TestPagesAreForEverybody(t *testing.T) {
	for _, p := range visited {
		t.Run(p.name, func(t *testing.T) {
			address := serve(t, p.data(), withTokens(cmp.Or(p.token, p.in), ""))
			tb := openTab(t, address)
			if p.in != "" {
				tb.do(chromedp.Navigate(address+"/signin"), chromedp.WaitVisible("#token"), chromedp.SendKeys("#token", p.in+"\r"), chromedp.WaitVisible("#hour"))
			}
			if p.says != "" {
				tb.allow(p.says)
			}
			tb.open(p.path)
			tb.check()
			if got := eval[string](tb, raw); got != "" {
				t.Errorf("raw: %q", got)
			}
			tb.screenshots(p.name)
		})
	}
}

// screenshots saves screenshots of the page if a folder is named.
func (tb *tab) screenshots(name string) {
	dir := os.Getenv("SIDENOTE_SCREENSHOTS")
	if dir == "" {
		return
	}
	for _, as := range []struct {
		width  int64
		scheme string
	}{{1200, "light"}, {1200, "dark"}, {360, "light"}} {
		tb.look(as.width, as.scheme)
		picture, err := chromedp.Run(tb, chromedp.FullScreenshot(100))
		if err != nil {
			tb.t.Fatal(err)
		}
		if err := os.WriteFile(fmt.Sprintf("%s/%s-%s-%d.png", dir, strings.ReplaceAll(name, " ", "-"), as.scheme, as.width), picture, 0o600); err != nil {
			tb.t.Fatal(err)
		}
	}
}
