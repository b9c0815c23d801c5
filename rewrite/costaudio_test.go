package rewrite_test

import (
	"strings"
	"testing"

	"sidenote/rewrite"
)

// An earlier spoken answer comes as an id that does not tell its length: it counts as a
// reserve, and the count is not exact.
func TestM18AudioByID(t *testing.T) {
	const head, tail = `{"messages":[{"role":"user","content":"one two"},{"role":"assistant"`, `}]}`
	const rest = 3 + 4 + 2 + 4
	for _, c := range []struct {
		audio string
		want  rewrite.Cost
	}{
		{`,"audio":{"id":"audio_abc"}`, rewrite.Cost{Messages: rest, Images: 640}},
		{`,"content":"three","audio":{"id":"audio_abc"}`, rewrite.Cost{Messages: rest + 1, Images: 640}},
		{`,"audio":{"id":"audio_abc","data":"AAAA","transcript":"a b"}`, rewrite.Cost{Messages: rest + 2, Images: 640}},
		{`,"audio":{"id":"audio_abc","data":"` + strings.Repeat("A", 256_000-2) + `"}`, rewrite.Cost{Messages: rest, Images: 64 + 1000}},
		{`,"content":"three","audio":null`, rewrite.Cost{Messages: rest + 1, Exact: true}},
	} {
		if got := costOf(t, rewrite.Model{Counter: words{}}, head+c.audio+tail); got != c.want {
			t.Errorf("%.80s costs %+v, want %+v", c.audio, got, c.want)
		}
	}
	// Nor do the request's bytes show that it fits.
	p := testPolicy(t, nil)
	p.ReserveOutputTokens = 1
	for audio, want := range map[string]rewrite.WindowCheck{`null`: rewrite.CheckBound, `{"id":"audio_abc"}`: rewrite.CheckCount} {
		req, err := rewrite.Parse([]byte(head + `,"audio":` + audio + tail))
		if err != nil {
			t.Fatal(err)
		}
		rw := &rewrite.Rewriter{Retriever: answering(manySources(3)), Models: models{rewrite.Model{Counter: words{}, Window: 3000}}}
		if w := rw.Rewrite(t.Context(), p, req, rewrite.Options{}).Ledger.Window; w.Check != want {
			t.Errorf("audio %s: %+v, want %s", audio, w, want)
		}
	}
}
