package inspector_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sidenote/proxy/answer"
	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// A body as received and as sent: with the block of one source after the application's rules.
const (
	received = `{"model":"gpt-5-mini","temperature":0.20,"messages":[{"role":"system","content":"You answer for the HR desk."},` +
		`{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello! What is it?"},{"role":"user","content":"How long is leave,\nand who says so [8]?"}],` +
		`"tools":[{"type":"function","function":{"name":"mail","parameters":{"type":"object","properties":{"to":{"type":"string"}}}}}],"stream":true}`
	block = `\n\nAnswer from these sources, and cite them as [1].\n\n<sources>\n<source id=\"1\" title=\"Leave\">\nLeave is 30 days a year.\n\nIt ends in \"March\".\n</source>\n</sources>`
	said  = "Leave is 30 days a year [1][4], and ends in March [ 2, 77 ].\n\n```\nx[1] = 2\n```\nThe law [8] says so [9]."
)

var sent = strings.Replace(received, "HR desk.", "HR desk."+block, 1)

// keepBodies keeps the bodies of a request.
func keepBodies(r *explain.Ring, of *report.Report) {
	switch {
	case of.Outcome == rewrite.Refused:
	case of.ID == "hostile":
		line := strings.Repeat("y", 256<<10)
		r.Received(of, []byte(hostile))
		r.Sent(of, [][]byte{[]byte(hostile + "\n" + line)})
		r.Answered(of, answer.Text{Bytes: len(hostile) + len(line), Text: hostile + "[1]" + line[:answer.MaxText], Finish: hostile})
	default:
		r.Received(of, []byte(received))
		r.Sent(of, [][]byte{[]byte(sent)})
		r.Answered(of, answer.Text{Bytes: len(said), Text: said, Finish: "stop"})
	}
}

// The request before and after: additions are marked visibly and for screen readers, unchanged
// lines far from them are folded and open by keyboard, and citations link to their sources.
func TestRequestBeforeAndAfter(t *testing.T) {
	tb := openTab(t, serve(t, many(), nil))
	tb.open("/requests/whole")
	if got := eval[string](tb, `document.querySelector("#source-1 [data-label=Score]").innerText`); got != "11.2 bm25\nwords 12.5\ncosine 0.71\nreranked 0.83" {
		t.Errorf("scores: %q", got)
	}
	if got := eval[string](tb, `[...document.querySelectorAll("#caches tbody tr")].map((r) => r.innerText.replaceAll(/\s+/g, " ")).join("; ")`); got != "Plan hit –; Sources of the whole search miss 3f2a9c1b; Candidates of handbook and 1 more hit 00c0ffee; Candidates of handbook and 1 more, query 1 of the plan miss 00000007; What fits into the budget hit –" {
		t.Errorf("caches: %q", got)
	}
	const added = `[...document.querySelectorAll(".lines > ins > div")]`
	want := "\n" + strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(block, `\n`), `\n`, "\n"), `\"`, `"`)
	if got := eval[string](tb, added+`.map((e) => "\n" + e.textContent).join("")`); got != want {
		t.Errorf("added: %q", got)
	}
	if got := eval[string](tb, `[`+added+`[1], document.querySelector(".lines > div")].map((e) => getComputedStyle(e, "::before").content + getComputedStyle(e).color).join(" ")`); !strings.HasPrefix(got, `"+"`) || strings.Count(got, "+") != 1 || !strings.Contains(got, " none") {
		t.Errorf("marks: %s", got)
	}
	if n := eval[int](tb, `document.querySelectorAll(".lines del").length`); n != 0 {
		t.Errorf("%d deletions", n)
	}
	if got := eval[string](tb, `document.querySelector(".lines summary").textContent`); got != "17 unchanged lines" {
		t.Errorf("folded: %s", got)
	}
	const folded = `document.querySelector(".lines details div").checkVisibility()`
	if eval[bool](tb, folded) {
		t.Error("nothing is folded")
	}
	tb.do(chromedp.Focus(".lines summary"), chromedp.KeyEvent("\r"))
	if !eval[bool](tb, folded) {
		t.Error("the keyboard does not unfold")
	}
	tb.check()
	if got := eval[string](tb, `[...document.querySelectorAll(".answer a")].map((a) => a.hash).join(" ") + " " + [...document.querySelectorAll(".answer .unknown")].map((e) => e.textContent).join()`); got != "#source-1 #source-4 #source-2 77 no such source,9 no such source" {
		t.Errorf("citations: %s", got)
	}
	tb.do(chromedp.Focus(".answer a"), chromedp.KeyEvent("\r"))
	if got := eval[string](tb, `document.querySelector(":target").textContent.trim().slice(0, 3) + document.querySelector(":target a").getAttribute("href")`); got != "[1]/knowledge/handbook/document?id=leave.md&chunk=0#chunk-0" {
		t.Errorf("the source: %s", got)
	}
}

// Removed lines are marked as removed, and a body that is not JSON keeps its own lines.
func TestRequestThatLost(t *testing.T) {
	r := explain.New(10, explain.BodiesFull)
	of := whole()
	r.Received(of, []byte("{a\nb\nc"))
	r.Sent(of, [][]byte{[]byte("{a\nc")})
	r.Record(of)
	page := ask(t, "GET", serve(t, inspector.Data{Requests: r}, nil)+"/requests/whole", "")
	if want := "\n<div class=\"d0\">{a</div>\n<del>\n<div class=\"d0\">b</div></del>\n\n<div class=\"d0\">c</div>\n</div>"; !strings.Contains(page.body, want) {
		_, lines, _ := strings.Cut(page.body, `<div class="lines">`)
		t.Errorf("%.400q", lines)
	}
}

// Of bodies that are too long to be kept both ends are compared, and nothing counts as removed
// only because the two middles were cut at different places.
func TestRequestWithoutItsMiddle(t *testing.T) {
	turn := func(i int) string { return fmt.Sprintf(`,{"role":"user","content":"%d"}`, i) }
	var turns strings.Builder
	for i := range 5000 {
		turns.WriteString(turn(i))
	}
	body := `{"messages":[{"role":"system","content":"Be brief."}` + turns.String() + `]}`
	r := explain.New(10, explain.BodiesFull)
	of := whole()
	r.Received(of, []byte(body))
	r.Sent(of, [][]byte{[]byte(strings.Replace(strings.Replace(body, "brief.", "brief."+block, 1), turn(4998), turn(4998)+turn(7777777), 1))})
	r.Record(of)
	tb := openTab(t, serve(t, inspector.Data{Requests: r}, nil))
	tb.open("/requests/whole")
	if got := eval[string](tb, `[...document.querySelectorAll(".lines > ins")].map((e) => e.textContent.replaceAll("\n", "")).join("|")`); !strings.HasPrefix(got, "Answer from") || !strings.HasSuffix(got, `|- "role": "user""content":7777777`) {
		t.Errorf("added: %s", got)
	}
	if n := eval[int](tb, `document.querySelectorAll(".lines del").length`); n != 0 {
		t.Errorf("%d deletions", n)
	}
	if got := eval[string](tb, `document.querySelector(".lines > .gap").textContent`); got != "… 98,408 bytes of what came, and 98,618 bytes of what was sent are not kept, and the lines beside them are not compared …" {
		t.Error(got)
	}
}

// In redacted bodies, the lengths are compared.
func TestRedactedRequest(t *testing.T) {
	r := explain.New(10, explain.BodiesRedacted)
	of := whole()
	keepBodies(r, of)
	r.Record(of)
	page := ask(t, "GET", serve(t, inspector.Data{Requests: r}, nil)+"/requests/whole", "")
	for _, want := range []string{"<del>\n<div class=\"d3 quoted\">(27 bytes)</div></del>", "<ins>\n<div class=\"d3 quoted\">(", "text answer\">(", "inject</code> at byte"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("there is no %q", want)
		}
	}
	for _, text := range []string{"HR desk", "30 days", "cite them", "who says so"} {
		if strings.Contains(page.body, text) {
			t.Errorf("there is %q", text)
		}
	}
}
