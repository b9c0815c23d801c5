//go:build unix

package engine

import (
	"bytes"
	"fmt"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/rewrite"
)

// BenchmarkCold is BenchmarkWarm for questions that were never asked before.
func BenchmarkCold(b *testing.B) {
	s := demoStack(b)
	policy, _ := s.Config.Tenant("default")
	body, parser := talk(1<<10), new(rewrite.Parser)
	var pieces [][]byte
	b.ReportAllocs()
	knowledgetest.Measure(b, func(n int) {
		asked := bytes.Replace(body, []byte("parental leave do"), fmt.Appendf(nil, "parental leave x%d do", n), 1)
		parser.Reset()
		req, err := parser.Parse(asked)
		if err != nil {
			b.Fatal(err)
		}
		res := s.Rewriter.Rewrite(b.Context(), policy.Rewrite, req, rewrite.Options{})
		if res.Outcome != rewrite.Injected || res.Retrieval.Cache != retrieval.CacheMiss {
			b.Fatalf("%s %s, cache=%s", res.Outcome, res.Reason, res.Retrieval.Cache)
		}
		pieces = rewrite.Pieces(pieces[:0], asked, res.Edits)
	})
}
