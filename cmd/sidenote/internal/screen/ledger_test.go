package screen

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/rewrite"
)

// Included sources are all shown, and the first three excluded ones, or all on request. A source
// has its base in its name if there are several.
func TestRewriteShowsTheFirstThatAreOut(t *testing.T) {
	var res rewrite.Result
	res.Outcome = rewrite.Injected
	res.Ledger = rewrite.Ledger{Budget: 2000, Used: 1500, Exactness: rewrite.Exact, Encoding: "o200k_base", Notes: []string{`knowledge "x": not in the policy`}}
	res.Ledger.Sources = []rewrite.SourceEntry{
		{ID: 1, Inclusion: rewrite.Included, Knowledge: "hr", Doc: "a.md", Chunk: 2, Section: "Leave", Tokens: 1200, Reranked: new(0.98765)},
		{ID: 2, Inclusion: rewrite.Cut, Knowledge: "hr", Doc: "b.md", Tokens: 1, Detail: "300 of 400"},
	}
	for i := range 5 {
		res.Ledger.Sources = append(res.Ledger.Sources, rewrite.SourceEntry{Inclusion: rewrite.Excluded, Knowledge: "hr", Doc: fmt.Sprintf("c%d.md", i), Detail: "after the best 2"})
	}
	const head = "injected\nbudget 2,000 tokens, used 1,500 exact (o200k_base)\nknowledge \"x\": not in the policy\n"
	const in = "in   [1]  a.md#2  Leave  1,200 tokens  rerank 0.988\ncut  [2]  b.md#0  1 token  300 of 400\n"
	const three = "out       c0.md#0  after the best 2\nout       c1.md#0  after the best 2\nout       c2.md#0  after the best 2\n"
	shown := func(full bool, want string) {
		t.Helper()
		var w strings.Builder
		Rewrite(&w, res, full)
		if w.String() != want {
			t.Errorf("full %v: got\n%s\nwant\n%s", full, w.String(), want)
		}
	}
	shown(false, head+in+three+"          and 2 more; --full shows all\n")
	shown(true, head+in+three+"out       c3.md#0  after the best 2\nout       c4.md#0  after the best 2\n")
	res.Ledger.Sources = res.Ledger.Sources[:5]
	shown(false, head+in+three)
	res.Ledger.Sources = res.Ledger.Sources[1:3]
	res.Ledger.Sources[0].Knowledge = "it"
	shown(false, head+"cut  [2]  it/b.md#0  1 token  300 of 400\nout       hr/c0.md#0  after the best 2\n")
}
