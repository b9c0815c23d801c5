//go:build unix

package server

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// office returns six documents that answer the question of talk, and sixty that only mention its
// topic.
func office() fs.FS {
	files := fstest.MapFS{}
	for i := range 66 {
		title, line := "Parental leave, part %d", "How many weeks of parental leave do you get? "
		if i >= 6 {
			title, line = "Office %d", "Whom to ask about parental leave here. "
		}
		var s strings.Builder
		fmt.Fprintf(&s, "# "+title+"\n\n"+line, i)
		for n := 0; s.Len() < 950; n++ {
			fmt.Fprintf(&s, "Desk %c%d is in hall-%d%d behind door-%d%c. ", 'a'+n, i, i, n, i, 'a'+n)
		}
		files[fmt.Sprintf("%02d.md", i)] = &fstest.MapFile{Data: []byte(s.String() + "\n")}
	}
	return files
}

// BenchmarkCold is BenchmarkWarm for questions that are new each time, over bases with few and
// with many candidates.
func BenchmarkCold(b *testing.B) {
	for _, base := range []struct {
		name      string
		documents fs.FS
	}{{"demo", demo.Corpus()}, {"office", office()}} {
		b.Run(base.name, func(b *testing.B) {
			s := stackOf(b, base.documents)
			policy, _ := s.Config.Tenant("default")
			body, parser := talk(1<<10), new(chat.Parser)
			var pieces [][]byte
			var res rewrite.Result
			b.ReportAllocs()
			knowledgetest.Measure(b, func(n int) {
				asked := bytes.Replace(body, []byte("parental leave do"), fmt.Appendf(nil, "parental leave x%d do", n), 1)
				parser.Reset()
				req, err := parser.Parse(chat.Completions, asked)
				if err != nil {
					b.Fatal(err)
				}
				s.Rewriter.Rewrite(b.Context(), &policy.Rewrite, req, &rewrite.Options{}, &res)
				if res.Outcome != rewrite.Injected || res.Retrieval.Cache != retrieval.CacheMiss {
					b.Fatalf("%s %s, cache=%s", res.Outcome, res.Reason, res.Retrieval.Cache)
				}
				pieces = rewrite.EditPieces(pieces[:0], asked, res.Edits)
			})
		})
	}
}
