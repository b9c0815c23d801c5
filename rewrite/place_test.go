package rewrite_test

import (
	"strings"
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// A model that refuses system messages gets nothing if there is no user message; the
// application's own system message would be refused anyway.
func TestNoPlaceForTheBlock(t *testing.T) {
	p := testPolicy(t, nil)
	p.Components = []rewrite.Component{{Name: "rules", Text: "Be kind."}}
	body := `{"messages":[{"role":"system","content":"A."},{"role":"assistant","content":"How can I help?"}],"sidenote":{"query":"How long?"}}`
	req, err := chat.Completions.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, placement := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit, rewrite.PlaceMarker} {
		for noSystem, want := range map[bool]rewrite.Outcome{true: rewrite.Untouched, false: rewrite.Injected} {
			p.Placement = placement
			rw := &rewrite.Rewriter{Retriever: answering(manySources(1)), Models: models{model.Model{Counter: words{}, NoSystem: noSystem}}}
			res := rw.Rewritten(t.Context(), p, req, rewrite.Options{Query: "How long?"})
			if res.Outcome != want || (res.Reason == rewrite.ReasonNoPlace) != noSystem || (res.Ledger.Placement == "") != noSystem {
				t.Errorf("%s, system messages refused: %v: %s %s in %q", placement, noSystem, res.Outcome, res.Reason, res.Ledger.Placement)
			}
			if out := string(rewrite.ApplyEdits(nil, req.Body, res.Edits)); strings.Contains(out, "sidenote") || strings.Contains(out, "sources") == noSystem {
				t.Errorf("%s: %s", placement, out)
			}
		}
	}
}

// A model that refuses system messages gets the block in the user message, even if that is the
// first message.
func TestNoSystemMessage(t *testing.T) {
	for _, placement := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit, rewrite.PlaceMarker} {
		p := testPolicy(t, nil)
		p.Placement = placement
		out := injected(t, p, model.Model{Counter: words{}, NoSystem: true}, `{"messages":[{"role":"user","content":"How long?"}]}`)
		if !strings.HasPrefix(out, `{"messages":[{"role":"user","content":"How long?\n\n<sources>`) {
			t.Errorf("%s: %s", placement, out)
		}
	}
}

// Under PlaceMarker every system and developer message is searched for markers and checked for
// ambiguity, even if the model requires another placement.
func TestAmbiguityUnderAMarker(t *testing.T) {
	const body = `{"messages":[{"role":"system","content":"a"},{"role":"system","content":"b","content":"c"},{"role":"user","content":"How long?"}]}`
	for _, c := range []struct {
		placement rewrite.Placement
		noSystem  bool
		want      bool
	}{
		{rewrite.PlaceMarker, false, true}, {rewrite.PlaceMarker, true, true}, {rewrite.PlaceSystem, false, false}, {rewrite.PlaceSystem, true, false}, {rewrite.PlaceLastUser, false, false},
	} {
		req, err := chat.Completions.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		rw := &rewrite.Rewriter{Retriever: answering(manySources(1)), Models: models{model.Model{Counter: words{}, NoSystem: c.noSystem}}}
		res := rw.Rewritten(t.Context(), placed(t, c.placement), req, rewrite.Options{})
		if (res.Ambiguity != nil) != c.want || c.want && res.Ambiguity.Param != "messages[1].content" {
			t.Errorf("%s, system messages refused: %v: %+v", c.placement, c.noSystem, res.Ambiguity)
		}
	}
}

// A policy that adds nothing reads nothing, so nothing is ambiguous; one that adds a component
// reads the message to which it is added.
func TestAmbiguityWhereNothingIsAdded(t *testing.T) {
	const body = `{"messages":[{"role":"system","content":"b","content":"c"},{"role":"user","content":"How long?"}]}`
	texts := []rewrite.Component{{Name: "house", Text: "Be kind."}}
	for _, c := range []struct {
		knowledge  []string
		components []rewrite.Component
		want       bool
	}{{nil, nil, false}, {[]string{"handbook"}, nil, true}, {nil, texts, true}, {[]string{"handbook"}, texts, true}} {
		p := testPolicy(t, nil)
		p.Knowledge, p.Components = c.knowledge, c.components
		if _, _, bad := toldOf(t, p, rewrite.Options{}, body); (bad != nil) != c.want {
			t.Errorf("%q, %d components: %+v", c.knowledge, len(c.components), bad)
		}
	}
}

// Without a user message the block is added at the end of the system message; a marker there is
// ignored under these placements.
func TestBeforeTheUsersFirstMessage(t *testing.T) {
	const body = `{"messages":[{"role":"system","content":"A {{sidenote}} b."},{"role":"assistant","content":"How can I help?"}]}`
	for _, placement := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit} {
		req, err := chat.Completions.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		rw := &rewrite.Rewriter{Retriever: answering(manySources(1)), Models: models{model.Model{Counter: words{}}}}
		res := rw.Rewritten(t.Context(), placed(t, placement), req, rewrite.Options{Query: "How long?"})
		out := string(rewrite.ApplyEdits(nil, req.Body, res.Edits))
		if !strings.HasPrefix(out, `{"messages":[{"role":"system","content":"A {{sidenote}} b.\n\n<sources>`) {
			t.Errorf("%s: %s, %s", placement, res.Outcome, out)
		}
	}
}
