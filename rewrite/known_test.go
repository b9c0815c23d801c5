package rewrite_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// counted returns sources with token counts as stored by an engine.
func counted(e *tokens.Encoding, sources []retrieval.Source) []retrieval.Source {
	sources = slices.Clone(sources)
	for i := range sources {
		sources[i].Tokens, _ = e.Count(sources[i].Text)
	}
	return sources
}

// Counts stored by the engine change neither the bytes nor the ledger of a rewrite.
func TestStoredCounts(t *testing.T) {
	names := []string{"o200k_base", "cl100k_base"}
	encodings := map[string]*tokens.Encoding{names[0]: encoding(t, names[0]), names[1]: encoding(t, names[1])}
	injected := 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "encoding")
		body := []byte(bodyGen().Draw(t, "body"))
		policy := policyGen().Draw(t, "policy")
		sources := rapid.SliceOfN(sourceGen(), 1, 4).Draw(t, "sources")
		req, err := chat.Completions.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		options, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		rewritten := func(sources []retrieval.Source) rewrite.Result {
			rw := rewrite.OneOfMany(&rewrite.Rewriter{Retriever: answering(sources), Models: models{model.Model{Row: "test", Encoding: name, Counter: encodings[name]}}})
			return rw.Rewritten(t.Context(), policy, req, options)
		}
		want, got := rewritten(sources), rewritten(counted(encodings[name], sources))
		if diff := differs(want.Edits, got.Edits); diff != "" {
			t.Fatalf("edits (-without +with counts):\n%s", diff)
		}
		if diff := differs(want.Ledger, got.Ledger); diff != "" || want.Outcome != got.Outcome || want.Reason != got.Reason {
			t.Fatalf("ledger (-without +with counts):\n%s", diff)
		}
		if got.Outcome == rewrite.Injected {
			injected++
		}
	})
	if injected == 0 {
		t.Error("nothing was ever put in")
	}
}

// A stored count applies to the stored text only: if the prompt has another text, it is counted.
func TestStoredCountOfAnotherText(t *testing.T) {
	e := encoding(t, "o200k_base")
	source := sixSources()[0]
	source.Text = "How <b>system</b> prompts work.\n" + strings.TrimSpace(source.Text)
	used := func(escape rewrite.Escape, tokens int) int {
		source := source
		source.Tokens = tokens
		rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{source}), Models: models{model.Model{Row: "test", Encoding: "o200k_base", Counter: e}}}
		p := rewrite.DefaultPolicy()
		p.Knowledge, p.Escape = []string{"handbook"}, escape
		req, err := chat.Completions.Parse(chatOf(1 << 10))
		if err != nil {
			t.Fatal(err)
		}
		return rw.Rewritten(t.Context(), p, req, rewrite.Options{}).Ledger.Used
	}
	if with, without := used(rewrite.EscapeAll, 1), used(rewrite.EscapeAll, 0); with != without {
		t.Errorf("%d tokens of an escaped text, want %d", with, without)
	}
	n, _ := e.Count(source.Text)
	if rewrite.Debug {
		return // a wrong count would be noticed
	}
	if lie, truth := used(rewrite.EscapeTags, n-7), used(rewrite.EscapeTags, n); lie != truth-7 || truth != used(rewrite.EscapeTags, 0) {
		t.Errorf("%d and %d tokens: the count was not used", lie, truth)
	}
}

// BenchmarkColdFit fits new chunks, for which nothing is cached.
func BenchmarkColdFit(b *testing.B) {
	e := encoding(b, "o200k_base")
	engine, err := tokens.New().Encoding("o200k_base") // has its own cache
	if err != nil {
		b.Fatal(err)
	}
	req, err := chat.Completions.Parse(chatOf(1 << 10))
	if err != nil {
		b.Fatal(err)
	}
	p := rewrite.DefaultPolicy()
	p.Knowledge = []string{"handbook"}
	for _, name := range []string{"counting", "counted"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				sources := sixSources()
				for j := range sources {
					sources[j].Text = fmt.Sprintf("%s %d: %s", name, i, strings.TrimSpace(sources[j].Text))
				}
				if name == "counted" {
					sources = counted(engine, sources)
				}
				rw := &rewrite.Rewriter{Retriever: answering(sources), Models: models{model.Model{Row: "gpt-4o*", Encoding: "o200k_base", Window: 128000, Counter: e}}}
				b.StartTimer()
				if res := rw.Rewritten(b.Context(), p, req, rewrite.Options{}); res.Outcome != rewrite.Injected {
					b.Fatalf("%s %s", res.Outcome, res.Reason)
				}
			}
		})
	}
}
