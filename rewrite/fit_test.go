package rewrite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tags"
)

func handbook(doc string, chunk int, text string) retrieval.Source {
	return retrieval.Source{Type: "rag", Knowledge: "handbook", Doc: doc, Chunk: chunk, Name: doc, Text: text}
}

// Code may compare with a variable called source, which is not a tag; cut right after that name
// it would look like one.
func TestCutMakesNoTag(t *testing.T) {
	e := encoding(t, "o200k_base")
	code := strings.Repeat("while(i<source.length)j<component.n;", 40)
	p := testPolicy(t, nil)
	p.MinTruncatedTokens = 1
	p.Sources.Priority = rewrite.PriorityCritical
	cuts := 0
	for budget := 120; budget < 190; budget++ {
		p.ContextTokens = budget
		for _, withSource := range []bool{true, false} {
			p.Components, p.Knowledge = nil, []string{"handbook"}
			if !withSource {
				p.Components, p.Knowledge = []rewrite.Component{{Name: "code", Text: code, Truncatable: true}}, nil
			}
			res, out := inject(t, model.Model{Counter: e}, p, []retrieval.Source{handbook("a.c", 0, code)})
			if res.Outcome != rewrite.Injected {
				t.Fatalf("budget %d: %s %s", budget, res.Outcome, res.Reason)
			}
			_, rest, _ := strings.Cut(out, "while")
			text, _, found := strings.Cut(rest, " [… cut to fit]")
			if found {
				cuts++
			}
			if n := new(tags.Vocabulary).Count(text + " [… cut to fit]"); n > 0 {
				t.Errorf("budget %d: %d tags in %q", budget, n, text)
			}
		}
	}
	if cuts == 0 {
		t.Fatal("nothing was cut")
	}
}

// If not even the first character of a text fits, no cut marker is added either.
func TestCutToNothing(t *testing.T) {
	p := testPolicy(t, nil)
	p.ContextTokens, p.MinTruncatedTokens = 120, 1
	zalgo := "a" + strings.Repeat("\u0301", 4000)
	res, out := inject(t, model.Model{Counter: encoding(t, "o200k_base")}, p, []retrieval.Source{handbook("a.md", 0, zalgo)})
	if res.Outcome != rewrite.Untouched || res.Reason != rewrite.ReasonBudget || strings.Contains(out, "cut to fit") {
		t.Errorf("%s %s: %s", res.Outcome, res.Reason, out)
	}
}

// Text that was left out does not count in the ledger's sums, even if an attempt included it.
func TestAccountOfWhatIsOut(t *testing.T) {
	p := testPolicy(t, nil)
	p.ContextTokens, p.MinTruncatedTokens = 40, 100
	p.Knowledge = nil
	p.Components = []rewrite.Component{
		{Name: "first", Text: "one two three", Priority: 90, Truncatable: true},
		{Name: "large", Text: strings.Repeat("many words ", 40), Priority: 70, Truncatable: true},
		{Name: "small", Text: strings.Repeat("few words ", 6), Priority: 30, Truncatable: true},
	}
	res, _ := inject(t, model.Model{Counter: words{}}, p, nil)
	l := res.Ledger
	if l.Components[2].Inclusion != rewrite.Excluded || l.Text != 3 || l.Rules+l.Tags+l.Text != l.Used {
		t.Errorf("used %d = rules %d + tags %d + text %d with %+v", l.Used, l.Rules, l.Tags, l.Text, l.Components)
	}
}

// The ledger's count of the rules never exceeds the used tokens, even if the rules take a token
// less next to the application's text than alone.
func TestAccountAtASeam(t *testing.T) {
	p := testPolicy(t, nil)
	p.Placement, p.OnEmpty = rewrite.PlaceSplit, ""
	rw := &rewrite.Rewriter{Retriever: answering(nil), Models: models{model.Model{Encoding: "o200k_base", Counter: encoding(t, "o200k_base")}}}
	req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":null},{"role":"user","content":null},{"role":"system","content":"\n "}]}`))
	if err != nil {
		t.Fatal(err)
	}
	l := rw.Rewritten(t.Context(), p, req, rewrite.Options{}).Ledger
	if l.Used == 0 || l.Rules != l.Used || l.Tags != 0 || l.Text != 0 {
		t.Errorf("used %d = rules %d + tags %d + text %d", l.Used, l.Rules, l.Tags, l.Text)
	}
}

// A neighbour added in a first attempt that exceeded the budget, because of the seam to the
// application's text, is counted once.
func TestNeighboursCountedOnce(t *testing.T) {
	s := handbook("leave.md", 2, "Every parent may take 16 weeks.")
	s.After = "Adoption counts too."
	p := testPolicy(t, nil)
	rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{s}), Models: models{model.Model{Counter: encoding(t, "o200k_base")}}}
	req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"system","content":"You are HR"},{"role":"user","content":"How long?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	used := rw.Rewritten(t.Context(), p, req, rewrite.Options{}).Ledger.Used
	for budget := used - 4; budget < used+4; budget++ {
		p.ContextTokens = budget
		res := rw.Rewritten(t.Context(), p, req, rewrite.Options{})
		there := strings.Count(string(rewrite.ApplyEdits(nil, req.Body, res.Edits)), "Adoption")
		if got := res.Ledger.Sources[0].Neighbours; got != there {
			t.Errorf("budget %d: %d neighbours in the ledger, %d in the prompt", budget, got, there)
		}
	}
}

// A chunk that the messages already contain is not added as a neighbour either, even if the same
// sources were fitted before for other messages.
func TestNeighbourAlreadyThere(t *testing.T) {
	s := handbook("leave.md", 2, "Every parent may take 16 weeks.")
	s.After, s.Before = "Adoption counts too.", "Who counts as a parent."
	p := testPolicy(t, nil)
	p.Digest = "remembered"
	rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{s}), Models: models{model.Model{Counter: words{}}}}
	for _, c := range []struct {
		system    string
		neighbour int
	}{{"You are HR.", 2}, {"Adoption counts too.\nYou are HR.", 1}, {"Hello.\nYou are HR.", 2}, {"Adoption counts too.\nWho counts as a parent.\nYou are HR.", 0}} {
		system, err := json.Marshal(c.system)
		if err != nil {
			t.Fatal(err)
		}
		req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"system","content":` + string(system) + `},{"role":"user","content":"How long?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		res := rw.Rewritten(t.Context(), p, req, rewrite.Options{})
		out := string(rewrite.ApplyEdits(nil, req.Body, res.Edits))
		if n := strings.Count(out, "Adoption"); n != 1 {
			t.Errorf("%q: %d times in %s", c.system, n, out)
		}
		if got := res.Ledger.Sources[0].Neighbours; got != c.neighbour {
			t.Errorf("%q: %d neighbours, want %d", c.system, got, c.neighbour)
		}
	}
}

// Sources without text are not a result: the reason says so, and so does each entry.
func TestSourcesWithoutText(t *testing.T) {
	sources := []retrieval.Source{handbook("a.md", 0, " \n"), handbook("b.md", 0, "\x00\u200b\u202e")}
	for empty, want := range map[rewrite.OnEmpty]rewrite.Outcome{
		rewrite.EmptyPass: rewrite.Untouched, rewrite.EmptyNotice: rewrite.Injected, rewrite.EmptyRefuse: rewrite.Answered,
	} {
		p := testPolicy(t, nil)
		p.OnEmpty = empty
		res, _ := inject(t, model.Model{Counter: words{}}, p, sources)
		if res.Outcome != want || res.Reason != rewrite.ReasonNoMatch {
			t.Errorf("%s: %s %q, want %s", empty, res.Outcome, res.Reason, want)
		}
	}
	res, _ := inject(t, model.Model{Counter: words{}}, testPolicy(t, nil), slices.Concat(sources, []retrieval.Source{handbook("c.md", 0, "Text.")}))
	if l := res.Ledger; len(l.Sources) != 3 || l.ChunksSelected != 1 {
		t.Errorf("%+v", l.Sources)
	}
}

// Line feeds at the end of the template count towards those between the block and the text after
// the marker.
func TestFeedsOfTemplate(t *testing.T) {
	p := testPolicy(t, nil)
	p.Placement, p.Template = rewrite.PlaceMarker, template("{{CONTEXT}}\n")
	req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"system","content":"A.\n\n{{sidenote}}B."},{"role":"user","content":"How long?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{handbook("a.md", 0, "Text.")}), Models: models{model.Model{Counter: words{}}}}
	res := rw.Rewritten(t.Context(), p, req, rewrite.Options{})
	if out := string(rewrite.ApplyEdits(nil, req.Body, res.Edits)); !strings.Contains(out, `</sources>\n\nB.`) {
		t.Error(out)
	}
}

// A hostile body takes memory proportional to its size, measured as all that is allocated, most
// of which is garbage at once.
func TestLinear(t *testing.T) {
	if rewrite.Debug {
		t.Skip("what a rewrite made is read and counted again")
	}
	const size = 1 << 20
	const user = `,{"role":"user","content":"How long?"}]}`
	for name, c := range map[string]struct{ open, unit, close string }{
		"parts":       {`{"messages":[{"role":"user","content":[`, `{}`, `]}` + user},
		"text parts":  {`{"messages":[{"role":"user","content":[`, `{"type":"text","text":"a"}`, `]}]}`},
		"system text": {`{"messages":[{"role":"system","content":[`, `{"type":"text","text":"a"}`, `]}` + user},
		"messages":    {`{"messages":[`, `{"role":""}`, user},
		"no messages": {`{"messages":[`, `{}`, user},
		"components":  {`{"messages":[{"role":"user","content":"a"}],"sidenote":{"components":[`, `{"name":"a","text":"a"}`, `]}}`},
		"options":     {`{"messages":[{"role":"user","content":"a"}],"sidenote":{"x":0,`, `"x":0`, `}}`},
		"tools":       {`{"tools":[`, `{"type":"x"}`, `],"messages":[{"role":"user","content":"a"}]}`},
		"properties":  {`{"functions":[{"parameters":{"properties":{"a":{}`, `"a":{}`, `}}}],"messages":[{"role":"user","content":"a"}]}`},
		"enum":        {`{"functions":[{"parameters":{"enum":[`, `0`, `]}}],"messages":[{"role":"user","content":"a"}]}`},
		"calls":       {`{"messages":[{"role":"user","content":"a","tool_calls":[`, `{"function":{}}`, `]}]}`},
		"images":      {`{"messages":[{"role":"user","content":[`, `{"type":"image_url","image_url":"data:image/png;base64,"}`, `]}` + user},
	} {
		body := []byte(c.open + strings.Repeat(c.unit+",", size/len(c.unit)) + c.unit + c.close)
		p := testPolicy(t, nil)
		p.Placement, p.CountWhole = rewrite.PlaceLastUser, true
		if name == "system text" {
			p.Placement = rewrite.PlaceSystem
		}
		rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{handbook("a.md", 0, "Text.")}), Models: models{model.Model{Counter: words{}}}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if req, err := chat.Completions.Parse(body); err == nil {
			if o, err := rewrite.ReadOptions(req); err == nil {
				rw.Rewritten(t.Context(), p, req, o)
			}
		}
		runtime.ReadMemStats(&after)
		if times := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(body)); times > 40 {
			t.Errorf("%s: allocated %.0f times the body", name, times)
		}
	}
}

// Caches stay small, however long the texts of requests are.
func TestRemembersLittle(t *testing.T) {
	const requests, size = 64, 256 << 10
	p := testPolicy(t, nil)
	p.Digest = "remembered"
	rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{handbook("a.md", 0, "Text.")}), Models: models{model.Model{Counter: words{}}}}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range requests {
		body := []byte(`{"messages":[{"role":"system","content":"` + fmt.Sprint(i) + strings.Repeat("a", size) + `"},{"role":"user","content":"How long?"}]}`)
		req, err := chat.Completions.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		if res := rw.Rewritten(t.Context(), p, req, rewrite.Options{}); res.Outcome != rewrite.Injected {
			t.Fatal(res.Outcome, res.Reason)
		}
	}
	if kept := int(heap()) - int(before); kept > requests*size/4 {
		t.Errorf("%d requests of %d bytes left %d bytes", requests, size, kept)
	}
	runtime.KeepAlive(rw)
}

// Empty lists of a ledger are [] in JSON.
func TestLedgerHasNoNull(t *testing.T) {
	for empty, want := range map[rewrite.OnEmpty]rewrite.Outcome{rewrite.EmptyPass: rewrite.Untouched, rewrite.EmptyRefuse: rewrite.Answered} {
		p := testPolicy(t, nil)
		p.OnEmpty = empty
		res, _ := inject(t, model.Model{Counter: words{}}, p, nil)
		got, err := json.Marshal(res.Ledger.WithExcluded())
		if err != nil {
			t.Fatal(err)
		}
		if res.Outcome != want || strings.Contains(string(got), "null") {
			t.Errorf("%s: %s", res.Outcome, got)
		}
	}
}

// dearWhole counts words, but twice as many for a text that contains all sources: what fits part
// by part then takes twice the room.
type dearWhole struct{ words }

func (w dearWhole) Count(text string) (int, bool) {
	n, exact := w.words.Count(text)
	if strings.Contains(text, "<sources>") && strings.Contains(text, "</source>") {
		n *= 2
	}
	return n, exact
}

// A neighbour added only in an earlier, larger attempt still affects the result: a request whose
// messages contain its text is fitted anew.
func TestRemembersWhatWasTried(t *testing.T) {
	if rewrite.Debug {
		t.Skip("what dearWhole counts does not add up, which this build demands")
	}
	sources := []retrieval.Source{
		{Type: "rag", Knowledge: "handbook", Doc: "a.md", Text: "one two three", After: "four five six seven eight"},
		{Type: "rag", Knowledge: "handbook", Doc: "b.md", Text: strings.Repeat("long ", 40)},
	}
	parse := func(text string) *chat.Request {
		req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"system","content":"{{sidenote}}End."},{"role":"user","content":"` + text + `"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	plain, holding := parse("How long?"), parse("four five six seven eight")
	for budget := range 400 {
		p := testPolicy(t, nil)
		p.ContextTokens, p.Placement = budget, rewrite.PlaceMarker
		rw := &rewrite.Rewriter{Retriever: answering(sources), Models: models{model.Model{Counter: dearWhole{}}}}
		anew := rw.Rewritten(t.Context(), p, holding, rewrite.Options{})
		p.Digest = "some policy"
		rw.Rewritten(t.Context(), p, plain, rewrite.Options{})
		again := rw.Rewritten(t.Context(), p, holding, rewrite.Options{})
		if diff := differs(anew.Ledger, again.Ledger); diff != "" {
			t.Fatalf("budget %d (-anew +remembered):\n%s", budget, diff)
		}
	}
}

// Requests with a smaller budget have their own cache entries, with the same results as without
// the cache.
func TestRemembersByBudget(t *testing.T) {
	rw := &rewrite.Rewriter{Retriever: answering(sixSources()), Models: models{model.Model{Counter: words{}}}}
	p := testPolicy(t, nil)
	p.Digest = "some policy"
	req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"How long?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	injected := 0
	for budget := 0; budget <= p.ContextTokens; budget += 50 {
		asked := rewrite.Options{ContextTokens: &budget}
		narrowed := p.Narrow(asked)
		first := rw.Rewritten(t.Context(), narrowed, req, asked)
		again := rw.Rewritten(t.Context(), narrowed, req, asked)
		narrowed.Digest = ""
		anew := rw.Rewritten(t.Context(), narrowed, req, asked)
		for _, got := range []rewrite.Result{first, again} {
			if diff := differs(anew.Edits, got.Edits); diff != "" {
				t.Fatalf("budget %d (-anew +remembered):\n%s", budget, diff)
			}
			if diff := differs(anew.Ledger, got.Ledger); diff != "" {
				t.Fatalf("budget %d (-anew +remembered):\n%s", budget, diff)
			}
		}
		if &first.Ledger.Sources[0] != &again.Ledger.Sources[0] {
			t.Errorf("budget %d: fitted twice", budget)
		}
		if anew.Outcome == rewrite.Injected {
			injected++
		}
	}
	if injected == 0 {
		t.Error("nothing was ever put in")
	}
}

// A place with an empty frame counts as a place: under PlaceSplit the sources of a request
// without a user message are added to the system message.
func TestRemembersByPlaces(t *testing.T) {
	rw := &rewrite.Rewriter{Retriever: answering(sixSources()), Models: models{model.Model{Counter: words{}}}}
	p := testPolicy(t, nil)
	p.Digest, p.Placement = "some policy", rewrite.PlaceSplit
	for message, want := range map[string]int{`{"role":"user","content":""}`: 2, `{"role":"assistant","content":"Hello."}`: 1} {
		req, err := chat.Completions.Parse([]byte(`{"messages":[` + message + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if res := rw.Rewritten(t.Context(), p, req, rewrite.Options{Query: "How long?"}); len(res.Edits) != want {
				t.Errorf("%s: %d insertions, want %d", message, len(res.Edits), want)
			}
		}
	}
}

// Results of a cache miss are not cached: they never come again, and would stay in memory.
func TestRemembersNoMiss(t *testing.T) {
	for state, want := range map[retrieval.CacheState]bool{retrieval.CacheHit: true, retrieval.CacheMiss: false} {
		found := sixSources()
		rw := &rewrite.Rewriter{Models: models{model.Model{Counter: words{}}}, Retriever: retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
			return retrieval.Result{Sources: found, Retrieved: len(found), Cache: state}, nil
		})}
		p := testPolicy(t, nil)
		p.Digest = "some policy"
		req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"How long?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		first, again := rw.Rewritten(t.Context(), p, req, rewrite.Options{}), rw.Rewritten(t.Context(), p, req, rewrite.Options{})
		if first.Outcome != rewrite.Injected {
			t.Fatalf("%s: %s %s", state, first.Outcome, first.Reason)
		}
		if once := &first.Ledger.Sources[0] == &again.Ledger.Sources[0]; once != want {
			t.Errorf("%s: fitted once: %v", state, once)
		}
		if first.FitCached || again.FitCached != want {
			t.Errorf("%s: kept: %v and %v", state, first.FitCached, again.FitCached)
		}
	}
}
