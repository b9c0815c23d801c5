package rewrite_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/chunks"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// drawChunks returns the JSON of a list of chunks.
func drawChunks(t *rapid.T) []byte {
	list := []map[string]any{}
	for i := range rapid.IntRange(0, 6).Draw(t, "chunks") {
		list = append(list, map[string]any{
			"id": fmt.Sprint("id-", i), "type": rapid.SampledFrom(chunks.Types()).Draw(t, "type"), "role": rapid.SampledFrom([]string{"user", "assistant"}).Draw(t, "role"),
			"content": textGen(8).Draw(t, "content"), "metadata": map[string]any{"tool": textGen(2).Draw(t, "tool")},
		})
	}
	raw, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// With chunks and sources the request grows by exactly what the ledger says and never exceeds the
// two budgets, every byte outside the edits is unchanged, and the result is JSON.
func TestChunksProperties(t *testing.T) {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(rapid.SampledFrom([]string{
			`{"role":"system","content":"Be brief."}`, `{"role":"developer", "content":[{"type":"text","text":"Cite\n"}]}`, `{"role":"system","content":null}`, `{"role":"system"}`,
			`{"role":"user","content":"How?"}`, ` {"content":"x","role":"user"} `, `{"role":"assistant","content":"a","n":1.0}`, `{"role":"assistant","tool_calls":[]}`, `{"role":"tool","content":"t"}`,
		}), 1, 5).Draw(t, "messages")
		field := `"sidenote": {"chunks": ` + string(drawChunks(t)) + `, "context": {"max_tokens": 400, "truncate": true` + rapid.SampledFrom([]string{"", `, "system_prompt": "Know."`}).Draw(t, "prompt") + `}}`
		body := []byte(`{"x_n":12345678901234567890, ` + strings.Join(rapid.Permutation([]string{field, `"messages":[` + strings.Join(messages, ",") + `]`, `"t": 0.10`}).Draw(t, "members"), " , ") + `}`)
		p := testPolicyOf(rapid.SampledFrom([]rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceSplit, rewrite.PlaceLastUser}).Draw(t, "placement"))
		p.Chunks.Placement = rapid.SampledFrom([]rewrite.ChunkPlacement{"", rewrite.ChunksBeforeLastUser}).Draw(t, "chunk placement")
		rw := &rewrite.Rewriter{
			Retriever: answering(rapid.SliceOfN(sourceGen(), 0, 3).Draw(t, "sources")),
			Models:    models{model.Model{Encoding: "o200k_base", Counter: counter, Window: rapid.SampledFrom([]int{0, 5000, 1200}).Draw(t, "window"), NoSystem: rapid.IntRange(0, 5).Draw(t, "no system") == 0}},
		}
		req, err := chat.Completions.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		came, err := chat.Completions.Parse(rewrite.ApplyEdits(nil, body, rewrite.StripEdits(req, "")))
		if err != nil {
			t.Fatal(err)
		}
		o, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Skip(err) // such as a lone surrogate
		}
		p, whole, o, err := rw.InsertChunks(p, req, o)
		if err != nil {
			t.Fatal(err)
		}
		res := rw.Rewritten(t.Context(), p, whole, o)
		out := rewrite.ApplyEdits(nil, whole.Body, res.Edits)
		goes, err := chat.Completions.Parse(out)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		l := &res.Ledger
		if grown := rw.Count(p, goes) - rw.Count(p, came); grown != l.Chunks.Tokens+l.Used || l.Chunks.Tokens > 400 || l.Used > max(l.Budget, 0) {
			t.Fatalf("the request grew by %d tokens, the ledger says %d of 400 for chunks and %d of %d:\n%s", grown, l.Chunks.Tokens, l.Used, l.Budget, out)
		}
		if total := l.Chunks.Tokens + l.Used; total > 0 && (l.Assembled == nil || l.Assembled.TotalTokens != total) {
			t.Fatalf("the event says %+v, it is %d tokens", l.Assembled, total)
		}
		checkOutside(t, body, out, l.Edits)
	})
}

// checkOutside finds the bytes between the edits in out, in order.
func checkOutside(t *rapid.T, body, out []byte, edits []rewrite.Edit) {
	at, rest := 0, out
	pieces := [][]byte{}
	for _, e := range edits {
		if e.Offset > at {
			pieces = append(pieces, body[at:e.Offset])
		}
		at = max(at, e.Offset+e.Delete)
	}
	if !bytes.HasSuffix(out, body[at:]) {
		t.Fatalf("%q is not the end of what goes up: %s", body[at:], out)
	}
	for i, piece := range pieces {
		n := bytes.Index(rest, piece)
		if n < 0 || i == 0 && n > 0 {
			t.Fatalf("%q is not in what goes up, or not in its place: %s", piece, out)
		}
		rest = rest[n+len(piece):]
	}
	if len(rest) < len(body[at:]) {
		t.Fatalf("%q is not in what goes up: %s", body[at:], out)
	}
}

func testPolicyOf(placement rewrite.Placement) rewrite.Policy {
	p := rewrite.DefaultPolicy()
	p.Tenant, p.Knowledge, p.Placement, p.MinTruncatedTokens, p.ContextTokens = "acme", []string{"handbook"}, placement, 5, 300
	return p
}

// The tags of chunks are also protected in sources and components, and cached fits with and
// without chunks are separate.
func TestChunksWidenTheVocabulary(t *testing.T) {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{handbook("a.md", 0, "A </tool_result> in a text.")}), Models: models{model.Model{Encoding: "o200k_base", Counter: counter}}}
	p := testPolicyOf(rewrite.PlaceSystem)
	p.Digest = "digest"
	send := func(field string) string {
		req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"How?"}]` + field + `}`))
		if err != nil {
			t.Fatal(err)
		}
		o, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		p, req, o, err := rw.InsertChunks(p, req, o)
		if err != nil {
			t.Fatal(err)
		}
		return string(rewrite.ApplyEdits(nil, req.Body, rw.Rewritten(t.Context(), p, req, o).Edits))
	}
	const chunk = `,"sidenote":{"chunks":[{"id":"e","type":"environment","content":"x"}]}`
	for range 2 {
		if out := send(""); !strings.Contains(out, "A </tool_result> in") {
			t.Errorf("without chunks: %s", out)
		}
		if out := send(chunk); !strings.Contains(out, "A [/tool_result> in") {
			t.Errorf("with chunks: %s", out)
		}
	}
}

// A source contained in a JSON chunk, where its line breaks are escaped, is not added again.
func TestChunksOfJSONHoldSources(t *testing.T) {
	text := "# Leave\n\nFourteen \"weeks\" for all."
	for content, want := range map[string]rewrite.Outcome{`{"r":["\"x\" # Leave\n\nFourteen \"weeks\" for all."]}`: rewrite.Untouched, `{"r":"# Leave\n\nFour"}`: rewrite.Injected} {
		body := `{"messages":[{"role":"user","content":"How?"}],"sidenote":{"chunks":[{"id":"e","type":"environment","content":` + content + `}]}}`
		req, err := chat.Completions.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		o, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		rw := &rewrite.Rewriter{Retriever: answering([]retrieval.Source{{Knowledge: "kb", Doc: "d", Text: text}}), Models: models{model.Model{Counter: encoding(t, "o200k_base")}}}
		p, req, o, err := rw.InsertChunks(testPolicyOf(rewrite.PlaceSystem), req, o)
		if err != nil {
			t.Fatal(err)
		}
		if res := rw.Rewritten(t.Context(), p, req, o); res.Outcome != want {
			t.Errorf("%s: %s %s, want %s", content, res.Outcome, res.Reason, want)
		}
	}
}

// If a request asks for more tokens of chunks than the policy allows, it gets the policy's, and
// the ledger notes it once, whatever else happens to the request.
func TestReducedMaxTokensIsNoted(t *testing.T) {
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	rw := &rewrite.Rewriter{Retriever: answering(nil), Models: models{model.Model{Encoding: "o200k_base", Counter: counter}}}
	for _, c := range []struct {
		policy, asked int
		want          string
	}{
		{0, 0, ""}, {0, 16_000, ""}, {0, 16_001, "context.max_tokens 16001: policy allows 16000"}, {90, 50_000, "context.max_tokens 50000: policy allows 90"},
		{90, 90, ""}, {90, 0, ""}, {32_000, 20_000, ""},
	} {
		p := testPolicyOf(rewrite.PlaceSystem)
		p.Chunks.MaxTokens = c.policy
		context := `{}`
		if c.asked > 0 {
			context = fmt.Sprintf(`{"max_tokens":%d}`, c.asked)
		}
		req, err := chat.Completions.Parse([]byte(`{"messages":[{"role":"user","content":"x"}],"sidenote":{"chunks":[{"id":"a","type":"custom","content":"x"}],"context":` + context + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		o, err := rewrite.ReadOptions(req)
		if err != nil {
			t.Fatal(err)
		}
		p, req, o, err = rw.InsertChunks(p, req, o)
		if err != nil {
			t.Fatal(err)
		}
		told := rw.Rewritten(t.Context(), p, req, o).Ledger
		o.ChunkResult.Record(&told) // as for an answer in rounds
		alone := rewrite.Ledger{}
		o.ChunkResult.Record(&alone) // as in mode off
		for _, l := range []rewrite.Ledger{told, alone} {
			if got := strings.Join(l.Notes, "; "); got != c.want {
				t.Errorf("policy %d, asked %d: notes %q, want %q", c.policy, c.asked, got, c.want)
			}
		}
	}
}
