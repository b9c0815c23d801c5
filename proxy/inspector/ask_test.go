package inspector_test

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"sidenote/proxy"
	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// asking returns the data for asking requests of tenants again. searched counts searches, and
// planned the calls of the planner.
func asking() (data inspector.Data, searched, planned *atomic.Int64) {
	data, searched, planned = tenants(), new(atomic.Int64), new(atomic.Int64)
	find := retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		searched.Add(1)
		res := retrieval.Result{Bases: []retrieval.Ref{{Knowledge: "handbook", Generation: "g2"}}, Sources: []retrieval.Source{
			{Type: "rag", Knowledge: "handbook", Doc: "leave.md", Name: "Leave policy", Text: strings.Repeat("Leave is 30 days. ", 20), Score: 11, Relevance: .8},
			{Type: "rag", Knowledge: "handbook", Doc: hostile, Name: hostile, Text: strings.Repeat("It is new. ", 20), Score: 9, Relevance: .7},
			{Type: "rag", Knowledge: "handbook", Doc: "it.md", Chunk: 3, Name: "IT", Text: strings.Repeat("Ask the desk of IT. ", 40), Score: 8, Relevance: .6},
		}}
		if q.Text == "nothing" {
			res.Sources, res.Reason = nil, retrieval.ReasonNoMatch
		}
		return res, nil
	})
	prepare := &retrieval.Prepare{
		Next: find, Ref: func(base string) (retrieval.Ref, bool) { return retrieval.Ref{Knowledge: base, Generation: "g2"}, true },
		HasTerms: func(text string) bool { return strings.TrimSpace(text) != "" },
	}
	acme := data.Policies.(policies)["acme"]
	acme.Models = nil
	acme.Rewrite.Planner = retrieval.PlanSettings{MaxQueries: 2, Timeout: 1e9}
	data.DryRun = &explain.DryRunner{
		Rewriter: &rewrite.Rewriter{Retriever: prepare, Models: words{}},
		Planners: &proxy.Planners{Upstreams: map[string]proxy.PlanUpstream{"openai": {}}, Plans: plans{planned}, Models: words{}},
	}
	return data, searched, planned
}

// words is a model table whose tokens are words.
type words struct{}

func (words) Model(string) model.Model {
	return model.Model{Row: "gpt-5*", Encoding: "words", Window: 1 << 20, Counter: words{}}
}

func (words) Count(s string) (int, bool) { return len(strings.Fields(s)), true }

// plans counts the calls of a planner that plans nothing.
type plans struct{ asked *atomic.Int64 }

func (p plans) Plan(context.Context, string, []string, func(context.Context) (retrieval.Plan, error)) (retrieval.Plan, error) {
	p.asked.Add(1)
	return retrieval.Plan{}, retrieval.ErrNotAsked
}

func askable() inspector.Data {
	data, _, _ := asking()
	return data
}

// A user asks a request again under a policy that no tenant has, and sees both side by side.
func TestAskAgain(t *testing.T) {
	data, searched, planned := asking()
	tb := openTab(t, serve(t, data, nil))
	form := `[...document.querySelectorAll(".ask select, .ask input, .ask textarea")].map((e) => e.type === "checkbox" ? e.checked : e.value).join("|")`
	tb.open("/requests/lowered")
	tb.do(chromedp.Click(`a[href="/requests/lowered/ask"]`), chromedp.WaitVisible("form.ask"))
	if got := eval[string](tb, form); got != "|shadow|1000|handbook||false" {
		t.Errorf("the form of a request that was lowered: %s", got)
	}
	tb.open("/requests/whole/ask")
	if got := eval[string](tb, form+` + document.querySelector("#kept").textContent`); !strings.HasPrefix(got, "|||||falseIf nothing is typed, the request is asked as it came, with its 4") {
		t.Errorf("the form: %s", got)
	}
	if searched.Load() != 0 {
		t.Error("something is searched before anybody asks")
	}
	eval[bool](tb, `(document.querySelector("#policy").value = "careful") !== null`)
	tb.do(chromedp.Click(".ask button"), chromedp.WaitVisible(".pair"))
	if got := eval[string](tb, form); got != "careful|||||false" {
		t.Errorf("the form forgets: %s", got)
	}
	figures := func() string {
		return eval[string](tb, `[...document.querySelectorAll("table")[0].tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent).join("\t") + "\n").join("")`)
	}
	for _, want := range []string{"Outcome\tinjected\tinjected\tsame\n", "Policy\tbase c3ca2702\tcareful 0fcareful\tother\n", "Sources in the prompt\t4\t3\t−1\n", "Budget\t2,000\t500\t−1,500\n"} {
		if got := figures(); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := eval[string](tb, `[...document.querySelectorAll("table")[1].tBodies[0].rows].map((r) => r.cells[0].textContent.slice(0, 12) + "|" + r.cells[1].textContent.split(",")[0] + "|" + r.cells[2].textContent.split(",")[0] + "|" + r.cells[3].textContent).join("\n")`); got !=
		"leave.md#0 h|[1] in|[1] in|shorter\n<script>aler|not found|[2] in|new\nit.md#3 hand|[3] in|[3] in|shorter\nüberstunden.|[2] cut|not found|gone\na\\\"b#4 handb|[4] in|not found|gone\n"+
			"out.md#2 han|out|not found|not found now\ntravel.md#0 |out|not found|not found now" {
		t.Errorf("sources:\n%s", got)
	}
	if got := eval[string](tb, `document.querySelector("main").textContent`); !strings.Contains(got, "The planner, reranker or grader of the policy was not asked.") || searched.Load() != 1 || planned.Load() != 0 {
		t.Errorf("%d searches, %d plans: %s", searched.Load(), planned.Load(), got)
	}
	tb.check()
	tb.screenshots("asked again")

	eval[bool](tb, `(document.querySelector("#text").value = "nothing", document.querySelector("#helpers").checked = true)`)
	tb.do(chromedp.Click(".ask button"), chromedp.WaitVisible(".pair .calm"))
	if planned.Load() != 1 {
		t.Errorf("the planner was asked %d times", planned.Load())
	}
	if got := figures(); !strings.Contains(got, "Outcome\tinjected\tuntouched\tother\n") || !strings.Contains(got, "Reason\t–\tno-match\tother\n") {
		t.Errorf("another question: %s", got)
	}
	tb.allow("400")
	eval[bool](tb, `(document.querySelector("#knowledge").value = "no such base!", true)`)
	tb.do(chromedp.Click(".ask button"), chromedp.WaitVisible("#wrong"))
	if got := eval[string](tb, `document.querySelector("#wrong").textContent + document.querySelector("#text").value`); got != `Not asked: sidenote-knowledge: "no such base!" is not the id of a knowledge base.nothing` {
		t.Errorf("what is wrong: %s", got)
	}
	tb.check()
}

// Only visitors who may read can ask again, from one of our pages, and by POST, since it may cost
// money.
func TestAskAgainIsGuarded(t *testing.T) {
	data, searched, _ := asking()
	address := serve(t, data, withTokens("tok", "read"))
	const form = "policy=careful&text=How+long%3F"
	if a := ask(t, "POST", address+"/requests/whole/ask", form); a.code != 303 || a.Get("Location") != "/signin?next=%2Frequests%2Fwhole%2Fask" {
		t.Errorf("without a session: %v", a)
	}
	in := ask(t, "POST", address+"/signin", "token=read")
	session, _, _ := strings.Cut(in.Get("Set-Cookie"), ";")
	for _, origin := range []string{"https://evil.example", "http://localhost:3000", "null"} {
		if a := ask(t, "POST", address+"/requests/whole/ask", form, "Cookie: "+session, "Origin: "+origin); a.code != 403 {
			t.Errorf("of a page of %s: %v", origin, a)
		}
	}
	if a := ask(t, "GET", address+"/requests/whole/ask?"+form, "", "Cookie: "+session); a.code != 200 || strings.Contains(a.body, "Side by side") || searched.Load() != 0 {
		t.Errorf("by GET: %d searches, %v", searched.Load(), a)
	}
	if a := ask(t, "POST", address+"/requests/whole/ask", form, "Cookie: "+session, "Origin: "+address); a.code != 200 || !strings.Contains(a.body, "Side by side") || searched.Load() != 1 {
		t.Errorf("with a session: %v", a)
	}
	if a := ask(t, "PUT", address+"/requests/whole/ask", form, "Cookie: "+session); a.code != 405 || a.Get("Allow") != "POST, GET" {
		t.Errorf("PUT: %v", a)
	}
	if a := ask(t, "POST", address+"/requests/whole/ask", "text="+strings.Repeat("x", 2<<20), "Cookie: "+session); a.code != 400 {
		t.Errorf("a form of 2 MiB: %d", a.code)
	}
}

// If a request cannot be asked, the page says why; the entered text stays text.
func TestAskAgainSaysWhyNot(t *testing.T) {
	data, _, _ := asking()
	address := serve(t, data, nil)
	post := func(id string, fields ...string) response {
		t.Helper()
		form := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			form.Set(fields[i], fields[i+1])
		}
		return ask(t, "POST", address+"/requests/"+id+"/ask", form.Encode()+"&x=")
	}
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{[]string{"policy", "nothing"}, "There is no policy nothing."},
		{[]string{"context_tokens", "0"}, "0 is no number of tokens from 1 to 10000000."},
		{[]string{"context_tokens", "many"}, "many is no number of tokens"},
		{[]string{"mode", "loud"}, "sidenote-mode: &#34;loud&#34; is not a mode"},
		{[]string{"text", "{not JSON"}, "not JSON"},
		{[]string{"text", `{"messages":[{"role":"user","content":"x"}],"sidenote":{"mode":"loud"}}`}, "sidenote.mode"},
		{[]string{"policy", hostile + "x"}, "There is no policy &lt;script&gt;alert(1)"},
	} {
		if a := post("whole", c.fields...); a.code != 400 || !strings.Contains(a.body, c.want) || !strings.Contains(a.body, `role="alert"`) || strings.Contains(a.body, "<script>alert") {
			t.Errorf("%q: %d %s", c.fields, a.code, a.body)
		}
	}
	if a := post("whole", "text", hostile); a.code != 200 || strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, "<img") || len(a.body) > 200_000 {
		t.Errorf("a hostile question: %d, %d bytes", a.code, len(a.body))
	}
	if a := post("refused"); a.code != 404 || !strings.Contains(a.body, "The caller of this request was refused") {
		t.Errorf("a request without a tenant: %v", a)
	}
	for _, id := range []string{"nothing", "hostile"} { // of a tenant that does not exist
		if a := post(id); a.code != 404 {
			t.Errorf("%s: %d", id, a.code)
		}
	}
	off := data
	off.Requests = explain.New(10, explain.BodiesRedacted)
	of := whole()
	keepBodies(off.Requests, of)
	off.Requests.Record(of)
	address = serve(t, off, nil)
	if a := post("whole"); a.code != 400 || !strings.Contains(a.body, "Type what to ask: of this request it is not kept.") || !strings.Contains(a.body, "explain: {bodies: full}") {
		t.Errorf("redacted: %v", a)
	}
	if a := post("whole", "text", "How long?"); a.code != 200 || !strings.Contains(a.body, "Side by side") {
		t.Errorf("redacted, and typed: %v", a)
	}
	none := data
	none.DryRun = nil
	if a := ask(t, "GET", serve(t, none, nil)+"/requests/whole/ask", ""); a.code != 404 {
		t.Errorf("without dry runs: %v", a)
	}
}

// A tenant keeps its own settings under any policy: here the models that it may name.
func TestAskAgainAsTheTenant(t *testing.T) {
	data, _, _ := asking()
	data.Policies.(policies)["acme"].Models = tenant.Models{"o3"}
	address := serve(t, data, nil)
	if a := ask(t, "POST", address+"/requests/whole/ask", "policy=careful"); a.code != 400 || !strings.Contains(a.body, "gpt-5-mini") {
		t.Errorf("%d %s", a.code, a.body)
	}
}

// longPolicies have the longest texts that a configuration can have, for any tenant.
type longPolicies struct{ text string }

func (longPolicies) Names() []string { return []string{"base"} }

func (p longPolicies) Resolve(name, _ string) (*tenant.Policy, []inspector.Setting) {
	of := &tenant.Policy{Name: "base", Hash: "c3ca2702", Tenant: name, Rewrite: rewrite.DefaultPolicy()}
	of.Rewrite.Knowledge = slices.Repeat([]string{"handbook"}, 1000)
	return of, slices.Repeat([]inspector.Setting{{Key: "template", Value: p.text, From: []string{p.text}}}, 100)
}

// However long all texts are, the page of a request with its policy is short, and so is the page
// for asking it again.
func TestLongestPolicies(t *testing.T) {
	data, _, _ := asking()
	data.Requests = worst()
	for id, text := range longTexts() {
		data.Policies = longPolicies{text}
		address := serve(t, data, nil)
		page, asked := ask(t, "GET", address+"/requests/"+id, ""), ask(t, "POST", address+"/requests/"+id+"/ask", "text=How+long%3F")
		for _, a := range []response{page, asked} {
			if n := len(a.body); a.code != 200 || n > 200_000 || !strings.HasSuffix(a.body, "</html>") {
				t.Errorf("%s: %d, %d bytes", id, a.code, n)
			}
		}
		if !strings.Contains(page.body, "What its configuration says") || !strings.Contains(asked.body, "Side by side") {
			t.Errorf("%s: something is missing", id)
		}
	}
}
