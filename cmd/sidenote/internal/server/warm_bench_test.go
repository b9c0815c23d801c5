//go:build unix

package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// talk returns a chat of about n bytes: a system prompt, alternating questions and longer answers,
// and a last question that the demo's documents answer.
func talk(n int) []byte {
	const line = `Most of that depends on the office, so ask its manager \"in good time\", then write down what was agreed.\n`
	b := bytes.NewBufferString(`{"model":"gpt-4o","messages":[{"role":"system","content":"You are the assistant of a small company.\nAnswer briefly."}`)
	for i := 0; b.Len() < n-300; i++ {
		role, lines := "user", 1
		if i%2 == 1 {
			role, lines = "assistant", 16
		}
		lines = max(1, min(lines, (n-b.Len())/len(line)-1))
		fmt.Fprintf(b, `,{"role":%q,"content":"Turn %d. %s"}`, role, i, strings.Repeat(line, lines))
	}
	b.WriteString(`,{"role":"user","content":"How many weeks of parental leave do I get?"}],"temperature":0.2}`)
	return b.Bytes()
}

// warm returns a function that parses and rewrites a chat of about n bytes, with everything that
// happens to a request before it is sent, when all lookups are cache hits.
func warm(tb testing.TB, s *Engine, n int) func() {
	tb.Helper()
	policy, _ := s.Config.Tenant("default")
	body, parser := talk(n), new(chat.Parser)
	var pieces [][]byte
	var res rewrite.Result
	rewritten := func(want retrieval.CacheState) {
		parser.Reset()
		req, err := parser.Parse(chat.Completions, body)
		if err != nil {
			tb.Fatal(err)
		}
		s.Rewriter.Rewrite(tb.Context(), &policy.Rewrite, req, &rewrite.Options{}, &res)
		if res.Outcome != rewrite.Injected || want != "" && res.Retrieval.Cache != want {
			tb.Fatalf("%s %s, cache=%s", res.Outcome, res.Reason, res.Retrieval.Cache)
		}
		pieces = rewrite.EditPieces(pieces[:0], body, res.Edits)
	}
	rewritten("")
	return func() { rewritten(retrieval.CacheHit) }
}

func BenchmarkWarm(b *testing.B) {
	s := demoStack(b)
	for _, kb := range []int{1, 20, 200} {
		b.Run(fmt.Sprintf("%dKB", kb), func(b *testing.B) {
			again := warm(b, s, kb<<10)
			b.ReportAllocs()
			for b.Loop() {
				again()
			}
		})
	}
}
