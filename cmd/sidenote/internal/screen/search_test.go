package screen

import (
	"strings"
	"testing"

	"sidenote/retrieval"
)

// A source is a heading and its text, wrapped to the terminal. Nothing in a document can move the
// cursor.
func TestResult(t *testing.T) {
	res := retrieval.Result{Sources: []retrieval.Source{
		{Knowledge: "hr", Doc: "leave.md", Chunk: 1, Name: "Leave", Section: "Parental", Score: 5.25, Relevance: .85, Text: "Every parent\nmay take 16 weeks."},
		{Knowledge: "hr", Doc: "evil\x1b[2J.md", Name: "\x1b]0;x", Text: "clear\x1b[2J\u202eme"},
	}}
	shown := func(wide int, want string) {
		t.Helper()
		var w strings.Builder
		Result(&w, res, wide)
		if w.String() != want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", wide, w.String(), want)
		}
	}
	const first, second = "1. leave.md#1  Leave > Parental  (score 5.2, relevance 0.85, base hr)\n", "2. evil·[2J.md#0  ·]0;x  (score 0.0, relevance 0.00, base hr)\n   clear·[2J·me\n"
	shown(0, first+"   Every parent may take 16 weeks.\n"+second)
	shown(25, first+"   Every parent may take\n   16 weeks.\n"+second)
	res = retrieval.Result{Reason: retrieval.ReasonNoMatch}
	shown(80, "nothing: no-match\n")
}
