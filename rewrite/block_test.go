package rewrite_test

import (
	"strings"
	"testing"

	"sidenote/retrieval"
	"sidenote/rewrite"
	requests "sidenote/rewrite/chat"
)

// In mode staged a Result has the inserted text, whatever the form of the message; in other modes
// it has none.
func TestBlock(t *testing.T) {
	const quoted = `Weeks: "16" \ <b>` + "\n\tünd 🙂"
	found := retrieval.Result{Sources: []retrieval.Source{{Type: "rag", Knowledge: "docs", Doc: "a.md", Name: "A", Text: quoted}}}
	for _, of := range []struct {
		placement rewrite.Placement
		messages  string
		begins    string
	}{
		{rewrite.PlaceSystem, `{"role":"system","content":"Be brief."},{"role":"user","content":"How long?"}`, "<sources>\n"},
		{rewrite.PlaceSystem, `{"role":"system","content":[{"type":"text","text":"Be brief."}]},{"role":"user","content":"How long?"}`, "<sources>\n"},
		{rewrite.PlaceSystem, `{"role":"system","content":[]},{"role":"user","content":"How long?"}`, "<sources>\n"},
		{rewrite.PlaceSystem, `{"role":"system","content":null},{"role":"user","content":"How long?"}`, "<sources>\n"},
		{rewrite.PlaceSystem, `{"role":"system"},{"role":"user","content":"How long?"}`, "<sources>\n"},
		{rewrite.PlaceSystem, `{"role":"user","content":"How long?"}`, "<sources>\n"},
		{rewrite.PlaceLastUser, `{"role":"user","content":"How long?"}`, "<sources>\n"},
		{rewrite.PlaceMarker, `{"role":"system","content":"Be {{sidenote}} brief."},{"role":"user","content":"How long?"}`, "<sources>\n"},
		{rewrite.PlaceSplit, `{"role":"system","content":"Be brief."},{"role":"user","content":"How long?"}`, strings.TrimSpace(splitRules) + "\n\n<sources>\n"},
	} {
		turn := newSplitTurn(t)
		turn.policy.Placement, turn.found, turn.messages = of.placement, found, of.messages
		if res, _ := turn.rewritten(t); res.Block != nil {
			t.Errorf("mode %s has a block", turn.policy.Mode)
		}
		turn.policy.Mode = rewrite.Staged
		res, _ := turn.rewritten(t)
		if text := requests.Unescape(res.Block); !strings.HasPrefix(text, of.begins) || !strings.HasSuffix(text, "\n"+quoted+"\n</source>\n</sources>") {
			t.Errorf("%s in %s: %q", of.placement, of.messages, text)
		}
		turn.found = retrieval.Result{}
		if res, _ = turn.rewritten(t); of.placement != rewrite.PlaceSplit && res.Block != nil {
			t.Errorf("%s without sources: %q", of.placement, res.Block)
		}
	}
}
