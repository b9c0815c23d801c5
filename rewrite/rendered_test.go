package rewrite_test

import (
	"context"
	"encoding/json"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// A cached source is rendered as it would be without the cache, whatever differs in the source or
// in how it is rendered.
func TestRenderedAgain(t *testing.T) {
	var found []retrieval.Source
	retriever := retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{Sources: found, Retrieved: len(found), Cache: retrieval.CacheMiss}, nil
	})
	changes := map[string]func(p *rewrite.Policy, src *retrieval.Source){
		"nothing":       func(*rewrite.Policy, *retrieval.Source) {},
		"type":          func(_ *rewrite.Policy, src *retrieval.Source) { src.Type = "other" },
		"base":          func(_ *rewrite.Policy, src *retrieval.Source) { src.Knowledge = "other" },
		"document":      func(_ *rewrite.Policy, src *retrieval.Source) { src.Doc = "other.md" },
		"name":          func(_ *rewrite.Policy, src *retrieval.Source) { src.Name = "Other" },
		"section":       func(_ *rewrite.Policy, src *retrieval.Source) { src.Section = "Other" },
		"text":          func(_ *rewrite.Policy, src *retrieval.Source) { src.Text += " <b>" },
		"stored tokens": func(_ *rewrite.Policy, src *retrieval.Source) { src.Tokens, _ = words{}.Count(src.Text) },
		"neighbour":     func(_ *rewrite.Policy, src *retrieval.Source) { src.After = "And then?" },
		"policy": func(p *rewrite.Policy, _ *retrieval.Source) {
			p.Digest, p.Escape = "another policy", rewrite.EscapeAll
		},
	}
	req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"How long?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(rw *rewrite.Rewriter, change func(*rewrite.Policy, *retrieval.Source)) string {
		p := testPolicy(t, nil)
		p.Digest, found = "some policy", sixSources()
		found[0].Text = "a < b"
		for i := range found {
			change(&p, &found[i])
		}
		res := rw.Rewritten(t.Context(), p, req, rewrite.Options{})
		if res.Outcome != rewrite.Injected {
			t.Fatalf("%s %s", res.Outcome, res.Reason)
		}
		ledger, err := json.Marshal(res.Ledger.WithExcluded())
		if err != nil {
			t.Fatal(err)
		}
		return string(rewrite.ApplyEdits(nil, req.Body, res.Edits)) + string(ledger)
	}
	model := models{model.Model{Counter: words{}}}
	for name, change := range changes {
		rw := &rewrite.Rewriter{Models: model, Retriever: retriever}
		ask(rw, changes["nothing"])
		again, anew := ask(rw, change), ask(&rewrite.Rewriter{Models: model, Retriever: retriever}, change)
		if again != anew {
			t.Errorf("%s: got %s, want %s", name, again, anew)
		}
	}
}

// The texts around sources do not depend on earlier requests.
func TestFixedTextsAgain(t *testing.T) {
	type asked struct {
		body    string
		sources int
		model   model.Model
	}
	const user = `{"role":"user","content":"How long?"}`
	var requests []asked
	for _, body := range []string{
		`{"messages":[` + user + `]}`,
		`{"messages":[` + user + `],"response_format":{"type":"json_object"}}`,
		`{"messages":[{"role":"system","content":"Be brief."}]}`,
	} {
		for _, sources := range []int{0, 2} {
			for _, model := range []model.Model{{Encoding: "words", Counter: words{}}, {Encoding: "bytes", Counter: bytesOf{}}} {
				requests = append(requests, asked{body, sources, model})
			}
		}
	}
	rewritten := func(rw *rewrite.Rewriter, p rewrite.Policy, a asked) string {
		rw.Models = models{a.model}
		rw.Retriever = retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
			return retrieval.Result{Sources: sixSources()[:a.sources], Cache: retrieval.CacheMiss}, nil
		})
		req, err := chat.Completions.Parse([]byte(a.body))
		if err != nil {
			t.Fatal(err)
		}
		res := rw.Rewritten(t.Context(), p, req, rewrite.Options{Query: "How long?"})
		ledger, err := json.Marshal(res.Ledger.WithExcluded())
		if err != nil {
			t.Fatal(err)
		}
		return string(rewrite.ApplyEdits(nil, req.Body, res.Edits)) + string(ledger)
	}
	for _, place := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceSplit} {
		p := testPolicy(t, nil)
		p.Digest, p.Placement, p.Grounding, p.ContextTokens = "some policy", place, rewrite.GroundingStrict, 20_000
		for _, first := range requests {
			for _, second := range requests {
				rw := new(rewrite.Rewriter)
				rewritten(rw, p, first)
				if again, anew := rewritten(rw, p, second), rewritten(new(rewrite.Rewriter), p, second); again != anew {
					t.Errorf("%s %+v after %+v: got %s, want %s", place, second, first, again, anew)
				}
			}
		}
	}
}

// bytesOf counts bytes.
type bytesOf struct{}

func (bytesOf) Count(text string) (int, bool) { return len(text), true }
