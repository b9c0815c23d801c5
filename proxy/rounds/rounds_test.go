package rounds_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/proxy/loop/looptest"
	"sidenote/proxy/report"
	"sidenote/proxy/rounds"
	"sidenote/proxy/toolbox"
	"sidenote/proxy/transport"
	"sidenote/retrieval"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

// A host has no further answer.
type host struct{ messages []json.RawMessage }

var errNone = errors.New("no further round")

func (h *host) Next(messages []json.RawMessage, _ bool) (*transport.Answer, error) {
	h.messages = messages
	return nil, errNone
}
func (*host) Error(error) []byte { return []byte(`{"error":{"message":"none"}}`) }

type bytesCounter struct{}

func (bytesCounter) Count(s string) (int, bool) { return len(s), true }

type unbounded struct{}

func (unbounded) Take(int) bool { return true }

// nobody keeps an answer open that is written to it.
type nobody struct{ io.Writer }

func (nobody) Close() error { return nil }

// conversation plays the first round of a stream whose model searches, and returns what the client
// gets, and what goes up.
func conversation(t *testing.T, heartbeat bool, search retrieval.Func, calls ...string) (client string, sent *host) {
	t.Helper()
	req, err := rewrite.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	policy := &toolbox.Policy{Offer: []toolbox.Name{toolbox.SearchKnowledge}, MaxRounds: 4, MaxTokens: 8000, Timeout: time.Minute, NoHeartbeat: !heartbeat}
	o, refusal := rounds.Offer(req, policy, rewrite.Model{}, []string{"docs"})
	if refusal != "" {
		t.Fatal(refusal)
	}
	p, sent := rewrite.DefaultPolicy(), new(host)
	r := rounds.New(rounds.Setup{
		Host: sent, Policy: policy, Offer: o, Box: &toolbox.Box{Knowledge: tools.Knowledge{Retriever: search, Terms: strings.Fields}},
		Caller: toolbox.Caller{Policy: &p, Counter: bytesCounter{}, FirstID: 1}, Room: policy.MaxTokens, Memory: unbounded{}, Life: t.Context(), Began: time.Now(),
		Report: new(report.Tools), Tap: func([]byte) {}, Closing: func() string { return "" }, Panicked: func(any, []byte) {},
	})
	var out bytes.Buffer
	w := r.Through(nil)(nobody{&out})
	a := looptest.Answer{Finish: "tool_calls"}
	for _, query := range calls {
		a.Calls = append(a.Calls, looptest.Call{Name: "search_knowledge", Arguments: `{"query":"` + query + `"}`})
	}
	body, _ := looptest.Bytes(a, looptest.Habits()[0], true)
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, errNone) {
		t.Errorf("it ended with %v", err)
	}
	return out.String(), sent
}

// Comments keep a stream alive while a tool runs, every five seconds, unless the policy says that
// there are none.
func TestHeartbeat(t *testing.T) {
	for _, heartbeat := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			slow := retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
				time.Sleep(12 * time.Second)
				return retrieval.Result{}, nil
			})
			client, _ := conversation(t, heartbeat, slow, "leave")
			want := 0
			if heartbeat {
				want = 2
			}
			if n := strings.Count(client, ": sidenote tools\n\n"); n != want || !strings.HasSuffix(client, `data: {"error":{"message":"none"}}`+"\n\n") {
				t.Errorf("%d comments: %s", n, client)
			}
		})
	}
}

// Calls of one turn run side by side, and a panic of one costs its result.
func TestCallsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		search := retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
			time.Sleep(3 * time.Second)
			if strings.HasPrefix(q.Text, "panics") {
				panic("search")
			}
			return retrieval.Result{}, nil
		})
		_, sent := conversation(t, true, search, "one", "panics", "two", "panics too")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("four calls took %s", took)
		}
		for i, want := range []string{"hits", "no room", "hits", "no room"} {
			if len(sent.messages) != 5 || !strings.Contains(string(sent.messages[i+1]), want) {
				t.Errorf("result %d is none of %s: %s", i, want, sent.messages)
			}
		}
	})
}

// Searches end when the time for all of them is up, and the model is told so.
func TestTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := retrieval.Func(func(ctx context.Context, _ retrieval.Query) (retrieval.Result, error) {
			<-ctx.Done()
			return retrieval.Result{}, ctx.Err()
		})
		began := time.Now()
		_, sent := conversation(t, false, hangs, "leave")
		if took := time.Since(began); took != time.Minute || !strings.Contains(string(sent.messages[1]), "time for searches is up") {
			t.Errorf("after %s: %s", took, sent.messages)
		}
	})
}

// A model is offered tools as the model table says that it takes them, which may depend on the effort
// that a chat asks for. What a policy says of text holds for all models.
func TestOfferByModel(t *testing.T) {
	const functions, text, nothing = "functions", "text", "model"
	for name, c := range map[string]struct {
		uses           tokens.ToolUse
		xml            bool // by the policy
		members, offer string
	}{
		"functions":           {tokens.ToolFunctions, false, ``, functions},
		"functions, effort":   {tokens.ToolFunctions, false, `"reasoning_effort":"high",`, functions},
		"text by the policy":  {tokens.ToolFunctions, true, ``, text},
		"text by the table":   {tokens.ToolXML, false, ``, text},
		"none":                {tokens.ToolNone, false, ``, nothing},
		"none, by the policy": {tokens.ToolNone, true, ``, text},
		"no effort":           {tokens.ToolUnlessEffort, false, ``, functions},
		"null effort":         {tokens.ToolUnlessEffort, false, `"reasoning_effort":null,`, functions},
		"effort none":         {tokens.ToolUnlessEffort, false, `"reasoning_effort":"none",`, functions},
		"some effort":         {tokens.ToolUnlessEffort, false, `"reasoning_effort":"low",`, nothing},
		"a router's effort":   {tokens.ToolUnlessEffort, false, `"reasoning":{"exclude":true,"effort":"low"},`, nothing},
		"needs none":          {tokens.ToolWithEffortNone, false, ``, nothing},
		"needs none, has it":  {tokens.ToolWithEffortNone, false, `"reasoning_effort":"none",`, functions},
	} {
		req, err := rewrite.Parse([]byte(`{` + c.members + `"messages":[{"role":"user","content":"?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		p := &toolbox.Policy{Offer: []toolbox.Name{toolbox.SearchKnowledge}, MaxRounds: 4, XML: c.xml}
		o, refusal := rounds.Offer(req, p, rewrite.Model{Tools: c.uses}, []string{"docs"})
		got := string(refusal)
		if o != nil {
			got = text
			if body := string(rewrite.Apply(nil, req.Body, o.Join(nil))); strings.Contains(body, `"tools":[`) {
				got = functions
			}
			if o.Policy().XML != (got == text) {
				t.Errorf("%s: rounds read calls in text: %t", name, o.Policy().XML)
			}
		}
		if got != c.offer || p.XML != c.xml {
			t.Errorf("%s: offered %s, want %s", name, got, c.offer)
		}
	}
}
