//go:build unix

package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// sentMessages is a chat as a model gets it: the role and text of each message.
type sentMessages struct {
	Messages []struct{ Role, Content string }
}

func (s sentMessages) roles() (roles []string) {
	for _, m := range s.Messages {
		roles = append(roles, m.Role)
	}
	return roles
}

// A model that rejects the system role gets no system message of ours: the block is in the last
// user message, whatever the placement.
func TestModelsThatTakeNoSystemMessage(t *testing.T) {
	s := demoStack(t)
	policy, _ := s.Config.Tenant("default")
	rewritten := func(model string, placement rewrite.Placement, messages string) (sent sentMessages, res rewrite.Result) {
		t.Helper()
		body := `{"model":"` + model + `","messages":[` + messages + `]}`
		req, err := chat.Completions.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		p := policy.Rewrite
		p.Placement, p.Digest = placement, string(placement)
		s.Rewriter.Rewrite(t.Context(), &p, req, &rewrite.Options{}, &res)
		if res.Outcome != rewrite.Injected || res.Ledger.ChunksSelected == 0 {
			t.Fatalf("%s, %s: %s %s", model, placement, res.Outcome, res.Reason)
		}
		if err := json.Unmarshal(rewrite.ApplyEdits(nil, req.Body, res.Edits), &sent); err != nil {
			t.Fatal(err)
		}
		return sent, res
	}
	const talk = `{"role":"user","content":"Hello."},{"role":"assistant","content":"Hi."},{"role":"user","content":"How many weeks of parental leave do I get?"}`
	placements := []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceSplit, rewrite.PlaceMarker, rewrite.PlaceLastUser}
	for _, model := range []string{
		"gemma-2-9b-it", "google/gemma-2-27b-it", "gemma2:9b", "gemma-7b-it", "gemma", "codegemma:7b", "gemma-3-27b-it", "o1-mini", "openai/o1-mini-2024-09-12", "o1-preview",
		"mistralai/Mistral-7B-Instruct-v0.2", "mistral.mixtral-8x7b-instruct-v0:1", "gemini-2.0-flash-preview-image-generation",
	} {
		for _, placement := range placements {
			sent, res := rewritten(model, placement, talk)
			if got := sent.roles(); !slices.Equal(got, []string{"user", "assistant", "user"}) {
				t.Errorf("%s, %s: roles %v", model, placement, got)
				continue
			}
			last := sent.Messages[2].Content
			if sent.Messages[0].Content != "Hello." || !strings.HasPrefix(last, "How many weeks of parental leave do I get?\n\n<sources>\nExcerpts retrieved") {
				t.Errorf("%s, %s: %q", model, placement, last)
			}
			if res.Ledger.Placement != rewrite.PlaceLastUser {
				t.Errorf("%s, %s: the ledger says %q", model, placement, res.Ledger.Placement)
			}
		}
	}
	// System messages of the app are kept; markers are removed.
	for _, placement := range placements {
		text := "Be brief."
		if placement == rewrite.PlaceMarker {
			text += "{{sidenote}}"
		}
		sent, _ := rewritten("gemma-2-9b-it", placement, `{"role":"system","content":"`+text+`"},`+talk)
		if got := sent.Messages[0].Content; got != "Be brief." || !strings.Contains(sent.Messages[3].Content, "<sources>") {
			t.Errorf("%s: system message %q, last %q", placement, got, sent.Messages[3].Content)
		}
	}
	for _, model := range []string{
		"gpt-4o", "o1", "o1-2024-12-17", "o1-pro", "o3-mini", "gemini-2.5-pro", "mistral-large-latest", "open-mixtral-8x7b", "mistralai/Mistral-7B-Instruct-v0.3", "llama3.1:8b", "unheard-of",
	} {
		if sent, res := rewritten(model, rewrite.PlaceSystem, talk); sent.Messages[0].Role != "system" || res.Ledger.Placement != rewrite.PlaceSystem {
			t.Errorf("%s: roles %v, placement %q", model, sent.roles(), res.Ledger.Placement)
		}
	}
}
