package inspector_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
)

// ids are the requests in the list, from the top.
const ids = `[...document.querySelectorAll("#requests tbody a")].map((a) => decodeURIComponent(a.pathname.split("/").pop())).join(" ")`

// The list grows as requests end, but not while it is paused; afterwards it shows what it missed.
func TestListIsLive(t *testing.T) {
	r := kept("a", "b")
	address := serve(t, inspector.Data{Requests: r}, nil)
	tb, other := openTab(t, address), openTab(t, address)
	for _, tb := range []*tab{tb, other} {
		tb.open("/requests")
		tb.until(`document.getElementById("live").textContent === "Live."`)
		if got := eval[string](tb, ids); got != "b a" {
			t.Errorf("at first: %s", got)
		}
	}
	r.Record(requestOf("c"))
	tb.until(ids + ` === "c b a"`)

	tb.do(chromedp.Click("#pause"))
	if got := eval[string](tb, `document.getElementById("live").textContent + document.getElementById("pause").ariaPressed + document.getElementById("pause").textContent`); got != "Paused.trueGo on" {
		t.Errorf("paused: %s", got)
	}
	r.Record(requestOf("d"))
	other.until(ids + ` === "d c b a"`)
	if got := eval[string](tb, ids); got != "c b a" {
		t.Errorf("paused: %s", got)
	}
	tb.do(chromedp.Click("#pause"))
	tb.until(ids + ` === "d c b a"`)

	r.Record(hostileRequest()) // as safe as in the initial page
	tb.until(ids + ` === "hostile d c b a"`)
	if got := eval[string](tb, `document.querySelector("#requests tbody td").textContent`); !strings.HasPrefix(got, "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>\"'>&lt;b[U+202E]gnp.exe[U+2066]") {
		t.Errorf("shown: %q", got)
	}
	tb.check()
}

// An empty list says so until the first request.
func TestFirstRequest(t *testing.T) {
	r := kept()
	tb := openTab(t, serve(t, inspector.Data{Requests: r}, nil))
	tb.open("/requests")
	if !eval[bool](tb, `document.getElementById("empty").checkVisibility()`) {
		t.Error("an empty list says nothing")
	}
	r.Record(requestOf("a"))
	tb.until(ids + ` === "a" && !document.getElementById("empty").checkVisibility()`)
}

// The page says how many requests came too fast, and keeps a limited number of rows.
func TestListIsBounded(t *testing.T) {
	r := explain.New(1000, explain.BodiesOff)
	tb := openTab(t, serve(t, inspector.Data{Requests: r}, nil))
	for i := range 300 {
		r.Record(requestOf(fmt.Sprint(i)))
	}
	tb.open("/requests")
	if n := eval[int](tb, `document.querySelectorAll("#requests tbody tr").length`); n != 100 {
		t.Errorf("%d rows", n)
	}
	for i := range 200 {
		r.Record(requestOf(fmt.Sprint("more", i)))
	}
	tb.until(`/^Live\. [0-9]+ came too fast to be shown\.$/.test(document.getElementById("live").textContent)`)
	for i := range 5 {
		for j := range 20 {
			r.Record(requestOf(fmt.Sprint("last", i, "-", j)))
		}
		tb.until(ids + fmt.Sprintf(`.startsWith("last%d-19 ")`, i))
	}
	if n := eval[int](tb, `document.querySelectorAll("#requests tbody tr").length`); n != 200 {
		t.Errorf("%d rows in the end", n)
	}
}

// The form filters the list, both current rows and later ones.
func TestFilter(t *testing.T) {
	r := kept("a")
	other := requestOf("b")
	other.Tenant = "o'ther & <co>"
	r.Record(other)
	r.Record(refused())
	tb := openTab(t, serve(t, inspector.Data{Requests: r}, nil))
	choose := func(want string, fields ...string) {
		t.Helper()
		tb.open("/requests")
		for i := 0; i < len(fields); i += 2 {
			eval[bool](tb, fmt.Sprintf(`(document.getElementById(%q).value = %q) !== null`, fields[i], fields[i+1]))
		}
		eval[bool](tb, `!(document.body.dataset.old = "")`)
		tb.do(chromedp.Click(".filter button"), chromedp.WaitReady("body:not([data-old]) #requests"))
		tb.until(ids + fmt.Sprintf(` === %q`, want))
	}
	choose("refused b a")
	choose("b", "tenant", other.Tenant)
	choose("refused", "outcome", "refused")
	choose("b a", "model", "gpt-5*")
	choose("b a", "text", "TOKENS=1187")
	choose("", "text", "TOKENS=1187", "outcome", "refused")
	choose("a", "tenant", "acme", "outcome", "injected", "text", "sources=4")
	if got := eval[string](tb, `[...document.querySelectorAll(".filter input, .filter select")].map((e) => e.value).join()`); got != "acme,injected,,sources=4" {
		t.Errorf("the form forgets what was chosen: %s", got)
	}
	again := requestOf("d")
	r.Record(refused())
	r.Record(again)
	tb.until(ids + ` === "d a"`)
}

// The page of a request lists the sources found, in prompt order, with their results.
func TestRequest(t *testing.T) {
	tb := openTab(t, serve(t, many(), nil))
	tb.open("/requests")
	tb.do(chromedp.Click(`a[href="/requests/whole"]`), chromedp.WaitVisible(".facts"))
	if got := eval[string](tb, `[...document.querySelectorAll("#sources tbody tr")].map((r) => r.cells[0].textContent + r.cells[2].textContent + " " + r.cells[5].textContent).join(", ")`); got != "[1]in 240, [2]cut 240 of 388, [3]in 240, [4]in 240, –out 0, –out 0" {
		t.Errorf("sources: %s", got)
	}
	// The bar has the budget's proportions, and its values are also shown as text.
	if got := eval[string](tb, `[...document.querySelector("svg.bar").querySelectorAll("rect")].map((r) => Math.round(r.width.baseVal.value * 2)).join()`); got != "66,120,240,240,240,240,41,813" {
		t.Errorf("budget: %s", got)
	}
	if got := eval[string](tb, `[...document.querySelector(".legend").children].map((e) => e.textContent).join(", ")`); got != `Rules 66, house-rules 120, [1] leave.md 240, [2] überstunden.md 240, [3] it.md 240, [4] a\"b 240, Tags around them 41, Free 813` {
		t.Errorf("legend: %s", got)
	}
	steps := `[...document.querySelectorAll(".steps tbody tr")].map((r) => r.cells[0].textContent + " " + r.cells[2].textContent).join(", ")`
	for path, want := range map[string]string{
		"/requests/whole":  "Plan queries 3.00 ms, Search 3.90 ms, Fit into the budget 0.20 ms, Edit the body 0.04 ms, Call of openai 8.00 ms, Other 4.86 ms",
		"/requests/tools":  "Plan queries 3.00 ms, Search 3.90 ms, Fit into the budget 0.20 ms, Edit the body 0.04 ms, Call of openai 8.00 ms, Tool search 2.00 ms, Call of openai 7.00 ms",
		"/requests/staged": "Plan queries 3.00 ms, Search 3.90 ms, Fit into the budget 0.20 ms, Edit the body 0.04 ms, Stage draft 5.00 ms, Stage final 6.00 ms, Call of openai 8.00 ms",
	} {
		tb.open(path)
		if got := eval[string](tb, steps); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// Hostile texts stay texts, however long; the complete text of a long one is behind a link.
func TestHostileTexts(t *testing.T) {
	address := serve(t, many(), nil)
	page := ask(t, "GET", address+"/requests/hostile", "")
	if n := len(page.body); n > 200_000 {
		t.Errorf("the page has %d bytes", n)
	}
	if strings.Contains(page.body, "<img") || strings.ContainsAny(page.body, "\u202E\u2066\u200B\x00\x1B\r") {
		t.Error("the page has what it should show")
	}
	tb := openTab(t, address)
	tb.open("/requests/hostile")
	if got := eval[string](tb, `document.querySelector("td .more").textContent + " " + document.querySelector("td .more").getAttribute("href")`); got != "59 bytes more /requests/hostile/json" {
		t.Errorf("a long text: %s", got)
	}
	if whole := ask(t, "GET", address+"/requests/hostile/json", ""); whole.Get("Content-Type") != "application/json" || !strings.Contains(whole.body, strings.Repeat("x", 256)+" …") || len(whole.body) > 300_000 {
		t.Errorf("the whole: %d, %d bytes", whole.code, len(whole.body))
	}
	if n := eval[int](tb, `document.scripts.length + document.images.length`); n != 1 {
		t.Errorf("%d scripts and pictures", n)
	}
}

// A user signs in by the form, and out.
func TestSigningIn(t *testing.T) {
	tb := openTab(t, serve(t, inspector.Data{Requests: kept("a")}, withTokens("", "tok")))
	at := func(path string) {
		t.Helper()
		tb.do(chromedp.WaitReady("main"))
		if got := eval[string](tb, "location.pathname + location.search"); got != path {
			t.Errorf("at %s, not %s", got, path)
		}
	}
	tb.open("/requests/a")
	at("/signin?next=%2Frequests%2Fa")
	tb.allow("401")
	tb.do(chromedp.SendKeys("#token", "wrong\r"), chromedp.WaitVisible("#wrong"))
	tb.check()
	tb.do(chromedp.SendKeys("#token", "tok\r"), chromedp.WaitVisible(".facts"))
	at("/requests/a")
	if got := eval[string](tb, "document.cookie"); got != "" {
		t.Errorf("scripts can read %s", got)
	}
	tb.check()
	tb.open("/requests")
	tb.until(`document.getElementById("live").textContent === "Live."`)
	tb.do(chromedp.Click("header button"), chromedp.WaitVisible("#token"))
	at("/signin")
	tb.open("/requests")
	at("/signin?next=%2Frequests")
}
