package rewrite_test

import (
	"strings"
	"testing"

	"sidenote/rewrite"
)

// A model that takes no system message gets nothing where there is no user message
// either; an app's own texts would be no better off there.
func TestM09NoPlaceForTheBlock(t *testing.T) {
	p := testPolicy(t, nil)
	p.Components = []rewrite.Component{{Name: "rules", Text: "Be kind."}}
	body := `{"messages":[{"role":"system","content":"A."},{"role":"assistant","content":"How can I help?"}],"sidenote":{"query":"How long?"}}`
	req, err := rewrite.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, placement := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit, rewrite.PlaceMarker} {
		for noSystem, want := range map[bool]rewrite.Outcome{true: rewrite.Untouched, false: rewrite.Injected} {
			p.Placement = placement
			rw := &rewrite.Rewriter{Retriever: answering(manySources(1)), Models: models{rewrite.Model{Counter: words{}, NoSystem: noSystem}}}
			res := rw.Rewrite(t.Context(), p, req, rewrite.Options{Query: "How long?"})
			if res.Outcome != want || (res.Reason == rewrite.ReasonNoPlace) != noSystem || (res.Ledger.Placement == "") != noSystem {
				t.Errorf("%s, system messages refused: %v: %s %s in %q", placement, noSystem, res.Outcome, res.Reason, res.Ledger.Placement)
			}
			if out := string(rewrite.Apply(nil, req.Body, res.Edits)); strings.Contains(out, "sidenote") || strings.Contains(out, "sources") == noSystem {
				t.Errorf("%s: %s", placement, out)
			}
		}
	}
}
