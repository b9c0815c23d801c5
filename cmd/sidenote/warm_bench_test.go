//go:build unix

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
)

// talk is a chat of about n bytes: a system prompt, questions and longer answers in
// turn, and a last question that the demo's documents answer.
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

// A rewrite after which nothing is new any more, with everything in place that a
// request meets between Parse and the edits.
func BenchmarkWarm(b *testing.B) {
	s := demoStack(b, "127.0.0.1:9", "")
	policy, _ := s.cfg.Tenant("default")
	for _, kb := range []int{1, 20, 200} {
		b.Run(fmt.Sprintf("%dKB", kb), func(b *testing.B) {
			req, err := rewrite.Parse(talk(kb << 10))
			if err != nil {
				b.Fatal(err)
			}
			rewritten := func(want retrieval.CacheState) {
				res := s.rewriter.Rewrite(b.Context(), policy.Rewrite, req, rewrite.Options{})
				if res.Outcome != rewrite.Injected || want != "" && res.Retrieval.Cache != want {
					b.Fatalf("%s %s, cache=%s", res.Outcome, res.Reason, res.Retrieval.Cache)
				}
			}
			rewritten("")
			b.ReportAllocs()
			for b.Loop() {
				rewritten(retrieval.CacheHit)
			}
		})
	}
}
