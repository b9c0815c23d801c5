package proxy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sidenote/cache"
	"sidenote/proxy"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/toolcalls"
	"sidenote/rewrite/toolcalls/toolcallstest"
)

// goesOn is the request of a client that continues a turn of which it saw only the call of
// weather.
const goesOn = `{"model":"m","messages":[{"role":"user","content":"?"},` +
	`{"role":"assistant","content":"Wait.","tool_calls":[{"id":"a","type":"function","function":{"name":"weather","arguments":"{}"}}]},` +
	`{"role":"tool","tool_call_id":"a","content":"It rains."}]}`

// words counts words.
type words struct{}

func (words) Count(text string) (int, bool) { return len(strings.Fields(text)), true }

var acme = toolcalls.TurnOwner{Tenant: "acme"}

// remembering returns a store with the hidden part of the turn in goesOn: a call whose result has
// n words.
func remembering(t *testing.T, n int) (*toolcalls.TurnStore, *chat.Request) {
	t.Helper()
	req, err := chat.Completions.Parse([]byte(goesOn))
	if err != nil {
		t.Fatal(err)
	}
	result, err := json.Marshal(map[string]string{"role": "tool", "tool_call_id": "b", "content": strings.Repeat("word ", n)})
	if err != nil {
		t.Fatal(err)
	}
	kept := toolcalls.NewTurnStore([]cache.Tier{{Name: "memory", Store: toolcalls.NewTurnMemory(1 << 20), TTL: toolcalls.TurnLifetime, EmptyTTL: toolcalls.TurnLifetime}}, nil)
	err = kept.Keep(t.Context(), acme, toolcalls.ReadHistory(req).Keys()[0], &toolcalls.Turn{
		Calls:   []toolcalls.HistoryCall{{At: 1, JSON: json.RawMessage(`{"id":"b","type":"function","function":{"name":"search_knowledge","arguments":"{}"}}`)}},
		Results: []json.RawMessage{result},
		NextID:  7,
	})
	if err != nil {
		t.Fatal(err)
	}
	return kept, req
}

func offer(t *testing.T, req *chat.Request) *proxy.Offering {
	t.Helper()
	o, refusal := proxy.OfferTools(req, &tools.Policy{Offer: []tools.ToolName{tools.SearchKnowledge}, MaxRounds: 4}, model.Model{}, []string{"docs"})
	if refusal != "" {
		t.Fatal(refusal)
	}
	return o
}

// Restored messages count in the memory for bodies, in the window of the model and in the tokens
// of the request. Their sources keep their ids.
func TestRestoredCounts(t *testing.T) {
	kept, req := remembering(t, 500)
	bare, o, taken := offer(t, req), offer(t, req), 0
	if n := o.Restore(t.Context(), kept, acme, func(n int) bool { taken += n; return true }); n != 1 {
		t.Fatalf("%d turns are put back", n)
	}
	body := rewrite.ApplyEdits(nil, req.Body, o.AddEdits(nil, nil))
	if grown := len(body) - len(rewrite.ApplyEdits(nil, req.Body, bare.AddEdits(nil, nil))); grown < 2500 || taken < 2*grown-8 || taken > 2*grown {
		t.Errorf("%d bytes are taken for %d", taken, grown)
	}
	if err := toolcallstest.Check(body); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	if n := o.Tokens(words{}) - bare.Tokens(words{}); n < 500 || n > 510 {
		t.Errorf("counts as %d tokens", n)
	}
	for _, c := range []struct{ model, policy, want int }{{0, 0, 0}, {8000, 0, 7498}, {8000, 4000, 3498}, {2000, 4000, 1498}, {0, 4000, 3498}, {400, 0, 1}} {
		m := model.Model{Window: c.model, Counter: words{}}
		if got := o.WithRoomForRestored(rewrite.Policy{Window: c.policy}, m).Window; got != c.want {
			t.Errorf("of a window of %d and %d the rewrite has %d, want %d", c.model, c.policy, got, c.want)
		}
		if got := bare.WithRoomForRestored(rewrite.Policy{Window: c.policy}, m).Window; got != c.policy {
			t.Errorf("nothing is put back, and the rewrite has %d of %d", got, c.policy)
		}
	}
	if id := o.FirstID(2); id != 7 {
		t.Errorf("the first new source is %d", id)
	}
}

// Nothing is restored if there is no memory for it, or for another owner.
func TestNotRestored(t *testing.T) {
	kept, req := remembering(t, 500)
	want := string(rewrite.ApplyEdits(nil, req.Body, offer(t, req).AddEdits(nil, nil)))
	for name, restore := range map[string]func(o *proxy.Offering) int{
		"no memory": func(o *proxy.Offering) int {
			return o.Restore(t.Context(), kept, acme, func(int) bool { return false })
		},
		"another tenant": func(o *proxy.Offering) int {
			return o.Restore(t.Context(), kept, toolcalls.TurnOwner{Tenant: "umbra"}, func(int) bool { return true })
		},
		"other rights": func(o *proxy.Offering) int {
			return o.Restore(t.Context(), kept, toolcalls.TurnOwner{Tenant: "acme", Access: "less"}, func(int) bool { return true })
		},
		"nothing is kept": func(o *proxy.Offering) int {
			return o.Restore(t.Context(), nil, acme, func(int) bool { return true })
		},
	} {
		o := offer(t, req)
		if n := restore(o); n != 0 {
			t.Errorf("%s: %d turns are put back", name, n)
		}
		if got := string(rewrite.ApplyEdits(nil, req.Body, o.AddEdits(nil, nil))); got != want {
			t.Errorf("%s: %s", name, got)
		}
		if id := o.FirstID(2); id != 3 {
			t.Errorf("%s: the first new source is %d", name, id)
		}
	}
}
