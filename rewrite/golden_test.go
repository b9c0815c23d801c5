package rewrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/goldentest"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// words counts words, so that a reader of a golden file can check the budget by eye.
type words struct{}

func (words) Count(text string) (int, bool) { return len(strings.Fields(text)), true }

type models struct{ row model.Model }

func (m models) Model(string) model.Model { return m.row }

// A golden file holds policy.json (changes of the default policy), sources.json (the search
// result) or reason.txt (why there is none), one or more request*.json, responses*.json of the
// Responses API or messages*.json of the Messages API, and, for each of them, the rewritten body and
// the ledger.
func TestGolden(t *testing.T) {
	goldentest.Each(t, "testdata/golden", golden)
}

func golden(t *testing.T, a *goldentest.Archive) {
	policy := testPolicy(t, a.Get("policy.json"))
	model := model.Model{Row: "test", Encoding: "words", Counter: words{}}
	if changed := a.Get("model.json"); changed != nil {
		err := json.Unmarshal(changed, &model)
		if err == nil && model.Encoding != "words" {
			model.Counter, err = tokens.New().Encoding(model.Encoding)
		}
		if err != nil {
			t.Fatalf("model.json: %v", err)
		}
	}
	rw := &rewrite.Rewriter{Retriever: answer(t, a.Get("sources.json"), strings.TrimSpace(string(a.Get("reason.txt")))), Models: models{model}}
	for _, f := range a.Files {
		for prefix, api := range map[string]chat.API{"request": chat.Completions, "responses": chat.Responses, "messages": chat.Messages} {
			suffix, ok := strings.CutPrefix(f.Name, prefix)
			if !ok {
				continue
			}
			out, ledger := run(t, rw, policy, api, bytes.TrimSuffix(f.Data, []byte("\n")))
			a.Set("want"+suffix, string(out))
			a.Set("want"+strings.TrimSuffix(suffix, ".json")+".ledger", ledger)
		}
	}
}

func testPolicy(t *testing.T, overlay []byte) rewrite.Policy {
	t.Helper()
	p := rewrite.DefaultPolicy()
	p.Tenant, p.Knowledge = "acme", []string{"handbook"}
	p.MinTruncatedTokens = 5
	if overlay != nil {
		if err := json.Unmarshal(overlay, &p); err != nil {
			t.Fatalf("policy.json: %v", err)
		}
	}
	return p
}

// template parses a template for a policy.
func template(text string) (t rewrite.Template) {
	if err := t.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return t
}

// answer is a Retriever that always returns sources, or fails for reason.
func answer(t *testing.T, sources []byte, reason string) retrieval.Func {
	t.Helper()
	var found []retrieval.Source
	if sources != nil {
		if err := json.Unmarshal(sources, &found); err != nil {
			t.Fatalf("sources.json: %v", err)
		}
	}
	for i := range found {
		if found[i].Type == "" {
			found[i].Type, found[i].Knowledge = "rag", "handbook"
		}
	}
	return func(context.Context, retrieval.Query) (retrieval.Result, error) {
		r := retrieval.Result{Sources: found, Reason: retrieval.Reason(reason), Retrieved: len(found), Unique: len(found), Cache: retrieval.CacheMiss}
		if r.Reason.Failed() {
			return r, fmt.Errorf("%s: %w", reason, retrieval.ErrUnavailable)
		}
		return r, nil
	}
}

// run rewrites body as the proxy does and describes the result, one item a line.
func run(t *testing.T, rw *rewrite.Rewriter, p rewrite.Policy, api chat.API, body []byte) (out []byte, ledger string) {
	t.Helper()
	var l strings.Builder
	req, err := api.Parse(body)
	if err != nil && (req == nil || !req.Empty || !bytes.Contains(body, []byte(`"chunks"`))) {
		var bad *chat.Error
		if !errors.As(err, &bad) {
			t.Fatalf("Parse: %T, want *rewrite.BodyError", err)
		}
		fmt.Fprintf(&l, "untouched %s param=%q %s\n", bad.Reason, bad.Param, bad.Message)
		return append(bytes.Clone(body), '\n'), l.String()
	}
	options, err := rewrite.ReadOptions(req)
	if err != nil {
		var bad *rewrite.OptionError
		if !errors.As(err, &bad) {
			t.Fatalf("Options: %T, want *rewrite.OptionError", err)
		}
		fmt.Fprintf(&l, "refused invalid-option %v\n", err)
		return append(bytes.Clone(body), '\n'), l.String()
	}
	p, req, options, err = rw.InsertChunks(p.Narrow(options), req, options)
	if err != nil {
		fmt.Fprintf(&l, "refused %v\n", err)
		return append(bytes.Clone(body), '\n'), l.String()
	}
	res := rewrite.Result{Outcome: rewrite.Untouched, Reason: rewrite.ReasonOff, Edits: rewrite.StripEdits(req, p.Placement)}
	if p.Mode == rewrite.Inject {
		res = rw.Rewritten(t.Context(), p, req, options)
	} else {
		options.ChunkResult.Record(&res.Ledger)
	}
	out = rewrite.ApplyEdits(nil, req.Body, res.Edits)
	if json.Valid(body) && !json.Valid(out) {
		t.Errorf("rewritten body is not JSON: %s", out)
	}
	describe(&l, res)
	return append(out, '\n'), l.String()
}

func describe(w *strings.Builder, res rewrite.Result) {
	g := res.Ledger
	if bad := res.Ambiguity; bad != nil {
		fmt.Fprintf(w, "%s %s param=%q %s\n", res.Outcome, bad.Reason, bad.Param, bad.Message)
		return
	}
	fmt.Fprintf(w, "%s %s\n", res.Outcome, res.Reason)
	if g.Budget > 0 {
		fmt.Fprintf(w, "budget %d used %d = rules %d + tags %d + text %d, overflow %d, %s\n", g.Budget, g.Used, g.Rules, g.Tags, g.Text, g.Overflow, g.Exactness)
	}
	if g.CacheMark != "" {
		fmt.Fprintf(w, "placement %s, cache mark %s\n", g.Placement, g.CacheMark)
	}
	if c := g.Chunks; c != nil {
		fmt.Fprintf(w, "chunks %d of %d, budget %d used %d exact %t, in %v out %v cut %q\n", c.In, c.Total, c.Budget, c.Tokens, c.Exact, c.Included, c.Excluded, c.Cut)
		for _, m := range c.Messages {
			fmt.Fprintf(w, "message %s %d of %v joined %t\n", m.Role, m.Tokens, m.ChunkIDs, m.Joined)
		}
		for _, e := range g.Edits {
			fmt.Fprintf(w, "edit %s at %d -%d +%d\n", e.Name, e.Offset, e.Delete, e.Insert.Len())
		}
		res.Edits = nil
	}
	for _, c := range g.Components {
		fmt.Fprintf(w, "component %s priority %d %s %d of %d %s\n", c.Name, c.Priority, c.Inclusion, c.Tokens, c.Demand, c.Detail)
	}
	for _, s := range g.Sources {
		fmt.Fprintf(w, "source [%d] %s/%s#%d %s %d of %d %s\n", s.ID, s.Knowledge, s.Doc, s.Chunk, s.Inclusion, s.Tokens, s.Demand, s.Detail)
	}
	for _, e := range res.Edits {
		fmt.Fprintf(w, "edit %s at %d -%d +%d\n", e.Name, e.Offset, e.Delete, e.Insert.Len())
	}
	for _, n := range g.Notes {
		fmt.Fprintf(w, "note %s\n", n)
	}
	if g.AppTags > 0 {
		fmt.Fprintf(w, "app_tags %d\n", g.AppTags)
	}
}
