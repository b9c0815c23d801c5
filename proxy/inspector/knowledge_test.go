package inspector_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

// bases are the knowledge bases of these tests: hr, whose folder is being read, and elsewhere,
// which cannot list its documents.
type bases struct {
	done  atomic.Int64                    // files of hr read so far
	asked atomic.Pointer[retrieval.Query] // the last search
}

// Retrieve finds the same chunks for any query.
func (b *bases) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	b.asked.Store(&q)
	chunk := func(base, doc string, n int, score float64, text string) retrieval.Source {
		return retrieval.Source{Knowledge: base, Doc: doc, Chunk: n, Name: "Of " + doc, Section: "Part", Score: score, Text: text}
	}
	answers := map[string]retrieval.Result{
		"hr":        {Floor: 2, Sources: []retrieval.Source{chunk("hr", "leave.md", 25, 6, "Sixteen\nweeks."), chunk("hr", "old.md", 0, 5, "Sixteen\nweeks."), chunk("hr", hostile, 1, 3, hostile), chunk("hr", "pay.md", 0, 1, "Money.")}},
		"elsewhere": {Sources: []retrieval.Source{chunk("elsewhere", "a", 0, .6, "Twelve weeks.")}},
	}
	p := &retrieval.Pipeline{
		Bases: func(id string) retrieval.Retriever {
			return retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
				res := answers[id]
				res.Bases = []retrieval.Ref{{Knowledge: id}}
				return res, nil
			})
		},
		Terms: func(text string) []string { return []string{text} },
	}
	return p.Retrieve(ctx, q)
}

// Passage reads leave.md, which has 45 chunks, and a document of hostile texts.
func (b *bases) Passage(_ context.Context, _ retrieval.Query, p retrieval.Passage) (list []retrieval.Source, err error) {
	if p.Doc != "leave.md" && p.Doc != hostile {
		return nil, retrieval.ErrNoHit
	}
	for n := p.First; n < min(p.End, 45); n++ {
		text := fmt.Sprintf("Chunk %d\nhas two lines.", n)
		if p.Doc == hostile {
			text = strings.Repeat(hostile, 1000)
		}
		list = append(list, retrieval.Source{Knowledge: p.Knowledge, Doc: p.Doc, Chunk: n, Name: "Of " + p.Doc, Section: "Part " + hostile, Text: text, Tokens: 7})
	}
	if list == nil {
		return nil, retrieval.ErrNoHit
	}
	return list, nil
}

// Store returns 120 documents of hr.
func (b *bases) Store(id string) (explain.Store, bool) {
	if id != "hr" {
		return explain.Store{Files: 7}, id == "elsewhere"
	}
	names := []string{hostile, "leave.md"}
	for n := range 118 {
		names = append(names, fmt.Sprintf("m%03d.md", n))
	}
	slices.Sort(names)
	return explain.Store{Files: len(names), File: func(i int) explain.KnowledgeFile {
		return explain.KnowledgeFile{ID: names[i], Name: "Of " + names[i], Chunks: 45, Bytes: 1000, Attributes: map[string]any{"audience": hostile}}
	}}, true
}

// Describe returns the states of the bases.
func (b *bases) Describe(_ context.Context, id string) (explain.Base, error) {
	if id != "hr" {
		return explain.Base{ID: id, Engine: "vector_store", Status: explain.StatusFailed, Documents: 7}, nil
	}
	changed := time.Now().Unix()
	return explain.Base{
		ID: id, Engine: "embedded", Status: explain.StatusIngesting, Documents: 120, Chunks: 900, Generation: "g1", ChangedAt: &changed, Path: "/docs/" + hostile,
		Ingest: &explain.Ingest{Running: true, Done: int(b.done.Load()), Files: 200, Report: &explain.IngestReport{
			Files: 120, New: 120, SkippedTotal: 2, Notes: []explain.LookupNote{{Document: hostile, Reason: hostile}},
			Skipped:      []explain.Skipped{{Path: hostile, Reason: hostile}, {Path: "scan.pdf", Reason: "no text layer"}},
			SkippedKinds: []explain.SkippedKind{{Files: 1, What: "PDF scanned", Why: "no text layer", Cure: "run OCR first", First: "scan.pdf"}, {Files: 1, What: hostile, Why: hostile, First: hostile}},
		}},
	}, nil
}

func (b *bases) data() inspector.Data {
	acme := &tenant.Policy{Tenant: "acme", Rewrite: rewrite.Policy{Knowledge: []string{"hr"}, Search: retrieval.DefaultSettings()}}
	return inspector.Data{Knowledge: &explain.Knowledge{
		Tenants: tenant.NewDirectory(tenant.Tenants{Keys: []tenant.Key{{Policy: acme}}}),
		Bases:   func() []string { return []string{"elsewhere", "hr"} }, Retriever: b, Reader: b, Stores: b, Describe: b.Describe,
		Model: func(string) model.Model { return model.Model{} },
		Explainer: func(context.Context, retrieval.Query) (retrieval.Explained, error) {
			return retrieval.Explained{
				Floor: 2, Terms: []retrieval.ExplainedTerm{{Text: "week", Score: 3}, {Text: "months", Typed: "mnoths", Score: 2}, {Text: hostile, Typed: hostile}},
				Hits: []retrieval.ExplainedHit{{Knowledge: "hr", Doc: "leave.md", Chunk: 25, Terms: []retrieval.ExplainedTerm{{Text: "week", Score: 5.5}}, Document: .5, Arm: "bm25", Words: 6, Cosine: .7, Weight: .3}},
			}, nil
		},
	}}
}

func knowing() inspector.Data { return new(bases).data() }

// A user searches, sees the components and the required value of each hit's score, and opens a
// document at the chunk.
func TestSearchingKnowledge(t *testing.T) {
	b := new(bases)
	tb := openTab(t, serve(t, b.data(), nil))
	tb.open("/knowledge")
	eval[bool](tb, `(document.querySelector("#q").value = "How many weeks?") !== null`)
	tb.do(chromedp.Click(".filter button"), chromedp.WaitVisible(".found"))
	if text := eval[string](tb, `document.body.innerText`); !strings.Contains(text, "week 3, mnoths → months 2, ") {
		t.Errorf("what was looked for: %s", text)
	}
	rows := eval[[]string](tb, `[...document.querySelectorAll(".found tbody tr")].map((r) => r.innerText.replaceAll(/\s+/g, " "))`)
	if len(rows) != 4 || !strings.HasPrefix(rows[0], "1 leave.md#25 hr Of leave.md › Part Sixteen weeks. near-duplicate: old.md#0 0.75 6 strength 4.74 week 5.5, its document 0.5 words 6, cosine 0.7 (weight 0.3)") || !strings.Contains(rows[3], "out: score 1.0 < 2.0") {
		t.Errorf("%q", rows)
	}
	lines := eval[[]string](tb, `[...document.querySelectorAll(".found tbody tr")].map((r) => { const l = r.querySelector(".least"); return l ? l.getAttribute("x") : "none"; })`)
	if !slices.Equal(lines, []string{"500", "500", "none", "500"}) && !slices.Equal(lines, []string{"500", "none", "500", "500"}) {
		t.Errorf("the line of what is needed: %q", lines)
	}
	tb.do(chromedp.Click(`a[href^="/knowledge/hr/document?id=leave.md&chunk=25"]`), chromedp.WaitVisible("#chunk-25"))
	if got := eval[string](tb, `[...document.querySelectorAll("[aria-current=true]")].map((e) => e.id + ": " + e.querySelector(".text").textContent).join()`); got != "chunk-25: Chunk 25\nhas two lines." {
		t.Errorf("marked: %q", got)
	}
	tb.do(chromedp.Click(`a[rel=next]`), chromedp.WaitVisible("#chunk-44"))
	if n := eval[int](tb, `document.querySelectorAll(".chunk").length`); n != 5 {
		t.Errorf("%d chunks behind those", n)
	}
	tb.open("/knowledge?q=weeks&tenant=acme")
	if q := b.asked.Load(); q.Tenant != "acme" || len(q.Bases) != 1 || q.Bases[0].Knowledge != "hr" || q.Settings.TopK != retrieval.DefaultSettings().TopK {
		t.Errorf("as a tenant %+v is asked", q)
	}
	tb.open("/knowledge?q=weeks&kb=hr&tenant=nobody")
	if got := eval[string](tb, `document.querySelector("[role=alert]").textContent + document.querySelector("[name=kb][value=hr]").checked`); got != `Nothing was searched: There is no tenant "nobody".true` {
		t.Error(got)
	}
}

// A user views a base while its folder is being read, and filters its documents.
func TestBase(t *testing.T) {
	b := new(bases)
	tb := openTab(t, serve(t, b.data(), nil))
	tb.open("/knowledge")
	tb.do(chromedp.Click(`a[href="/knowledge/hr"]`), chromedp.WaitVisible("#state"))
	b.done.Store(57)
	tb.until(`document.querySelector("#state").textContent.includes("57 of 200 files") && document.querySelector("progress").value === 57`)
	listed := `[...document.querySelectorAll("table")].at(-1).tBodies[0].rows.length`
	if n := eval[int](tb, listed); n != 50 {
		t.Errorf("%d documents", n)
	}
	tb.do(chromedp.Click("a[rel=next]"), chromedp.WaitVisible("a[rel=prev]"), chromedp.Click("a[rel=next]"), chromedp.WaitNotPresent("a[rel=next]"))
	if n := eval[int](tb, listed); n != 20 {
		t.Errorf("%d documents on the last page", n)
	}
	eval[bool](tb, `(document.querySelector("#text").value = "LEAVE") !== null`)
	tb.do(chromedp.Click(".filter button"), chromedp.WaitNotPresent(".paging a"))
	if got := eval[string](tb, `document.querySelector("#main").innerText`); !strings.Contains(got, "leave.md") || strings.Contains(got, "m001.md") || !strings.Contains(got, "run OCR first") {
		t.Errorf("filtered: %s", got)
	}
}

// Unknown pages are not found; long and hostile texts are shortened and stay text.
func TestKnowledgePages(t *testing.T) {
	address := serve(t, knowing(), nil)
	for path, want := range map[string]int{
		"/knowledge/none": 404, "/knowledge/none/document?id=leave.md": 404, "/knowledge/hr/document?id=none": 404, "/knowledge/hr/document": 404,
		"/knowledge/hr/document?id=leave.md&chunk=99": 404, "/knowledge/hr/document?id=leave.md&chunk=-1": 200, "/knowledge/hr?from=-7&text=x": 200, "/knowledge/hr?from=999": 200,
		"/knowledge/hr/document?id=" + url.QueryEscape(hostile): 200, "/knowledge/hr/document/json?id=leave.md&first=44": 200, "/knowledge/hr/document/json?id=none": 404,
		"/knowledge?q=" + url.QueryEscape(hostile): 200, "/knowledge?q=x&kb=none": 200,
	} {
		a := ask(t, "GET", address+path, "")
		if a.code != want || len(a.body) > 200<<10 || !strings.Contains(path, "json") && strings.Contains(a.body, "<script>") {
			t.Errorf("%.80s: %d, %d bytes", path, a.code, len(a.body))
		}
	}
	if body := ask(t, "GET", address+"/knowledge/hr/document?chunk=17&id="+url.QueryEscape(hostile), "").body; !strings.Contains(body, `id="chunk-17" class="chunk" aria-current="true"`) ||
		!strings.Contains(body, `rel="prev"`) || strings.Contains(body, `id="chunk-0"`) {
		t.Errorf("long chunks before it keep away the one that was hit: %d bytes", len(body))
	}
	if body := ask(t, "GET", address+"/knowledge/hr/document/json?id=leave.md&first=44", "").body; !strings.Contains(body, `"text": "Chunk 44\nhas two lines."`) {
		t.Error(body)
	}
}

// The page of a base that cannot be described says why.
func TestUndescribedBase(t *testing.T) {
	data := knowing()
	data.Knowledge.Describe = func(context.Context, string) (explain.Base, error) {
		return explain.Base{}, errors.New("the state is locked")
	}
	for _, path := range []string{"/knowledge", "/knowledge/hr"} {
		if body := ask(t, "GET", serve(t, data, nil)+path, "").body; !strings.Contains(body, "the state is locked") {
			t.Errorf("%s: %s", path, body)
		}
	}
}
