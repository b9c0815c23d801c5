package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/retrieval"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// A host is a RoundsHost without a further answer.
type host struct{ messages []json.RawMessage }

var errNone = errors.New("no further round")

func (h *host) NextRound(messages []json.RawMessage, _ bool) (*transport.Answer, error) {
	h.messages = messages
	return nil, errNone
}
func (*host) RoundError(error) []byte { return []byte(`{"error":{"message":"none"}}`) }

type bytesCounter struct{}

func (bytesCounter) Count(s string) (int, bool) { return len(s), true }

func (*host) Take(int) bool                 { return true }
func (*host) ReadPiece([]byte)              {}
func (*host) CheckWhole(body []byte) []byte { return body }
func (*host) KeepPending()                  {}
func (*host) EndAnswer()                    {}
func (*host) CloseRounds() string           { return "" }
func (*host) Panicked(any, []byte)          {}

// A nobody is a writer whose Close does nothing.
type nobody struct{ io.Writer }

func (nobody) Close() error { return nil }

// conversation plays the first round of a stream whose model searches, and returns what the client
// gets and the host with the messages that were sent.
func conversation(t *testing.T, heartbeat bool, search retrieval.Func, calls ...string) (client string, sent *host) {
	t.Helper()
	a := answertest.Answer{Finish: "tool_calls"}
	for _, query := range calls {
		a.Calls = append(a.Calls, answertest.Call{Name: "search_knowledge", Arguments: `{"query":"` + query + `"}`})
	}
	return converse(t, heartbeat, false, search, a)
}

// converse plays a first round in which the model answers with a.
func converse(t *testing.T, heartbeat, xml bool, search retrieval.Func, a answertest.Answer) (client string, sent *host) {
	t.Helper()
	req, err := chat.Completions.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	policy := &tools.Policy{Offer: []tools.ToolName{tools.SearchKnowledge}, MaxRounds: 4, MaxTokens: 8000, Timeout: time.Minute, NoHeartbeat: !heartbeat, XML: xml}
	o, refusal := proxy.OfferTools(req, policy, model.Model{}, []string{"docs"})
	if refusal != "" {
		t.Fatal(refusal)
	}
	p, sent := rewrite.DefaultPolicy(), new(host)
	r := proxy.NewRounds(proxy.RoundsSetup{
		Host: sent, Policy: policy, Offer: o, Box: &tools.Box{Knowledge: tools.Knowledge{Retriever: search, Terms: strings.Fields}},
		Caller: tools.Caller{Policy: &p, Counter: bytesCounter{}, FirstID: 1}, Room: policy.MaxTokens, Life: t.Context(), Began: time.Now(),
		Report: new(report.Tools),
	})
	var out bytes.Buffer
	w := r.Through(nil)(nobody{&out})
	body, _ := answertest.Bytes(a, answertest.Habits()[0], true)
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, errNone) {
		t.Errorf("it ended with %v", err)
	}
	return out.String(), sent
}

// Results stay within max_tokens, however many calls of a turn are not run, and why: too many,
// repeated, with wrong arguments or an unknown tool. There is room for the results of the calls
// that are run, and each call has a result.
func TestResultsStayWithinMaxTokens(t *testing.T) {
	hit := retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		if strings.HasPrefix(q.Text, "fails") {
			return retrieval.Result{}, errors.New("down")
		}
		s := retrieval.Source{Knowledge: "docs", Doc: "leave.md", Name: "Leave", Text: strings.Repeat("Parental leave. ", 4), Score: 1}
		return retrieval.Result{Sources: []retrieval.Source{s}}, nil
	})
	for name, query := range map[string]func(i int) string{
		"too many":  func(i int) string { return fmt.Sprint("leave ", i) },
		"repeated":  func(int) string { return "leave" },
		"wrong":     func(i int) string { return strings.Repeat(" ", i+1) },
		"all fail":  func(i int) string { return fmt.Sprint("fails ", i) },
		"a mixture": func(i int) string { return []string{"leave", fmt.Sprint("leave ", i), "", "fails"}[i%4] },
	} {
		for _, n := range []int{3, 16, 40, 1000, 2000} {
			if testing.Short() && n > 1000 && name != "a mixture" {
				continue
			}
			queries := make([]string, n)
			for i := range queries {
				queries[i] = query(i)
			}
			_, sent := conversation(t, false, hit, queries...)
			var said struct {
				Calls []struct{ ID string } `json:"tool_calls"`
			}
			if err := json.Unmarshal(sent.messages[0], &said); err != nil {
				t.Fatal(err)
			}
			if len(sent.messages) != len(said.Calls)+1 || len(said.Calls) < min(n, 1000) {
				t.Fatalf("%s: %d results of %d calls, of which %d go up", name, len(sent.messages)-1, n, len(said.Calls))
			}
			size, found := 0, 0
			for i, m := range sent.messages[1:] {
				var result struct {
					ID      string `json:"tool_call_id"`
					Content string
				}
				if err := json.Unmarshal(m, &result); err != nil {
					t.Fatal(err)
				}
				if result.ID != said.Calls[i].ID || result.Content == "" {
					t.Fatalf("%s: call %d of %d has the result %s", name, i, n, m)
				}
				size += len(result.Content)
				if strings.Contains(result.Content, "Parental leave.") {
					found++
				}
			}
			if size > 8000 {
				t.Errorf("%s: the results of %d calls have %d tokens", name, n, size)
			}
			if limit := 16 + 8000/4/len("{}"); len(said.Calls) > limit {
				t.Errorf("%s: %d calls go up, of which %d have room for a result", name, len(said.Calls), limit)
			}
			if finds := name != "wrong" && name != "all fail"; finds != (found > 0) {
				t.Errorf("%s: %d of %d calls found something", name, found, n)
			}
		}
	}
}

// Results in text stay within max_tokens, too; those that do not fit are left out.
func TestResultsInTextStayWithinMaxTokens(t *testing.T) {
	hit := retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		s := retrieval.Source{Knowledge: "docs", Doc: "leave.md", Name: "Leave", Text: "Parental leave.", Score: 1}
		return retrieval.Result{Sources: []retrieval.Source{s}}, nil
	})
	for _, n := range []int{2, 40, 1000} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "<search_knowledge><query>leave %d</query></search_knowledge>\n", i)
		}
		_, sent := converse(t, false, true, hit, answertest.Answer{Text: text.String(), Finish: "stop"})
		if len(sent.messages) != 2 {
			t.Fatalf("%d messages for %d calls", len(sent.messages), n)
		}
		var result struct{ Content string }
		if err := json.Unmarshal(sent.messages[1], &result); err != nil {
			t.Fatal(err)
		}
		const wrapped = 16 * len("<tool_result tool=\"search_knowledge\" success=\"true\">\n\n</tool_result>\n")
		if found := strings.Count(result.Content, `success="true"`); len(result.Content) > 8000+wrapped || found != min(n, 16) {
			t.Errorf("%d calls: %d of them are made, and the results have %d tokens", n, found, len(result.Content))
		}
	}
}

// Comments keep a stream alive while reasoning is held back until it is known what follows it.
func TestHeartbeatWhileReasoningIsHeld(t *testing.T) {
	for _, heartbeat := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			req, err := chat.Responses.Parse([]byte(`{"model":"m","input":"?"}`))
			if err != nil {
				t.Fatal(err)
			}
			policy := &tools.Policy{Offer: []tools.ToolName{tools.SearchKnowledge}, MaxRounds: 4, MaxTokens: 8000, Timeout: time.Minute, NoHeartbeat: !heartbeat}
			o, refusal := proxy.OfferTools(req, policy, model.Model{}, []string{"docs"})
			if refusal != "" {
				t.Fatal(refusal)
			}
			r := proxy.NewRounds(proxy.RoundsSetup{Host: new(host), Policy: policy, Offer: o, Life: t.Context(), Began: time.Now(), Report: new(report.Tools)})
			var out bytes.Buffer
			w := r.Through(nil)(nobody{&out})
			event := func(data string) {
				if _, err := io.WriteString(w, "data: "+data+"\n\n"); err != nil {
					t.Fatal(err)
				}
			}
			event(`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}`)
			for range 12 {
				time.Sleep(time.Second)
				event(`{"type":"response.reasoning_summary_text.delta","output_index":0,"item_id":"rs_1","delta":"hm"}`)
			}
			want := ""
			if heartbeat {
				want = strings.Repeat(": sidenote tools\n\n", 2)
			}
			if out.String() != want {
				t.Errorf("heartbeat %v: %q", heartbeat, out.String())
			}
			event(`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}`)
			if n := strings.Count(out.String(), `"hm"`); n != 12 {
				t.Errorf("%d pieces of the reasoning", n)
			}
		})
	}
}

// Comments keep a stream alive while a tool runs, every five seconds, unless the policy disables
// them.
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

// Calls of one turn run concurrently, and a panic of one only costs its result.
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

// Searches end at the deadline for all of them, and the model is told so.
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

// A model is offered tools as the model table says, which may depend on the reasoning effort of a
// chat. A policy that asks for text applies to all models.
func TestOfferByModel(t *testing.T) {
	const functions, text, nothing = "functions", "text", "model"
	for name, c := range map[string]struct {
		uses           tokens.ToolUse
		xml            bool // set by the policy
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
		req, err := chat.Completions.Parse([]byte(`{` + c.members + `"messages":[{"role":"user","content":"?"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		p := &tools.Policy{Offer: []tools.ToolName{tools.SearchKnowledge}, MaxRounds: 4, XML: c.xml}
		o, refusal := proxy.OfferTools(req, p, model.Model{Tools: c.uses}, []string{"docs"})
		got := string(refusal)
		if o != nil {
			got = text
			if body := string(rewrite.ApplyEdits(nil, req.Body, o.AddEdits(nil, nil))); strings.Contains(body, `"tools":[`) {
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
