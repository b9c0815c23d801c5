package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sidenote/cache/redis/redistest"
	"sidenote/proxy/answer/answertest"
)

// Without Redis one process restores what the client did not see, whatever server is behind it, for
// each request that continues from there.
func TestTurnsInOneProcess(t *testing.T) {
	for _, habit := range someHabits() {
		t.Run(habit.Name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, a *caller) {
				d := newDesk(t, habit, "", mixedAnswers, mixedAnswers[2:])
				p := d.replica("")
				a.turn(p)
				a.end(p)
				a.end(p) // the client asks again
				d.whole(2)
				d.whole(3)
				if !strings.Contains(a.status, "; restored=1") {
					t.Errorf("Sidenote-Status: %s", a.status)
				}
			})
		})
	}
}

// The turn is on one replica, the next request on the other.
func TestTurnsOverTwoReplicas(t *testing.T) {
	bothWays(t, func(t *testing.T, a *caller) {
		server := redistest.Start(t)
		d := newDesk(t, answertest.Habits()[0], "", mixedAnswers)
		one, two := d.replica(server.URL()), d.replica(server.URL())
		a.turn(one)
		a.end(two)
		d.whole(2)
	})
}

// Redis is down, or loses its data, between the two requests: the replica that had the turn
// restores it, another leaves it out.
func TestTurnsWithoutRedisBetween(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*redistest.Server){
		"killed":  (*redistest.Server).Kill,
		"hangs":   (*redistest.Server).Stop,
		"flushed": func(s *redistest.Server) { s.Do("FLUSHALL") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(t *testing.T, a *caller) {
				server := redistest.Start(t)
				d := newDesk(t, answertest.Habits()[0], "", mixedAnswers, mixedAnswers[2:])
				one, two := d.replica(server.URL()), d.replica(server.URL())
				a.turn(one)
				harm(server)
				if name == "hangs" {
					defer server.Continue()
				}
				a.end(two)
				a.end(one)
				d.without(2)
				d.whole(3)
			})
		})
	}
}

// Redis hangs from before the turn: the client still gets its call.
func TestTurnsOnARedisThatHangs(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, a *caller) {
		server := redistest.Start(t)
		d := newDesk(t, answertest.Habits()[0], "", mixedAnswers, mixedAnswers[2:])
		one, two := d.replica(server.URL()), d.replica(server.URL())
		server.Stop()
		defer server.Continue()
		a.turn(one)
		a.end(two)
		a.end(one)
		d.without(2)
		d.whole(3)
	})
}

// Another tenant with the same conversation, and a caller of the same tenant who may see other
// documents, get none of it.
func TestTurnsOfOthers(t *testing.T) {
	tenants := fmt.Sprintf("policies: {default: {mode: tools, knowledge: [handbook]}}\ntenants:\n  acme: {keys: [\"%x\"]}\n  umbra: {keys: [\"%x\"]}\n",
		sha256.Sum256([]byte(acmeKey)), sha256.Sum256([]byte(umbraKey)))
	bothWays(t, func(t *testing.T, a *caller) {
		server := redistest.Start(t)
		d := newDesk(t, answertest.Habits()[0], tenants, mixedAnswers, slices.Repeat(mixedAnswers[2:], 2))
		one, two := d.replica(server.URL()), d.replica(server.URL())
		a.key = acmeKey
		a.turn(one)
		stranger, narrower := *a, *a
		stranger.key = umbraKey
		narrower.options = []option.RequestOption{option.WithJSONSet("sidenote", map[string]any{"filters": map[string]any{"type": "ne", "key": "audience", "value": "board"}})}
		stranger.end(one)
		d.without(2)
		narrower.end(two)
		d.without(3)
		a.end(two)
		d.whole(4)
	})
}

// A client that serializes its history differently is recognized; one that changed the model's text
// is not.
func TestTurnsOfAnotherClient(t *testing.T) {
	d := newDesk(t, answertest.Habits()[0], "", mixedAnswers, mixedAnswers[2:])
	p := d.replica("")
	a := newCaller(t, false)
	a.turn(p)
	for n, text := range []string{`Let me look.\u000a\u000aAnd the \u0077eather.`, "Let me look again."} {
		body := fmt.Sprintf(`{"messages": [
 {"content": [{"text": "You help staff.", "type": "text"}], "role": "system"},
 {"content": [{"text": "How long is parental leave, and does it rain in Bern?", "type": "text"}], "role": "user"},
 {"tool_calls": [{"type": "function", "function": {"arguments": "{ \"city\" : \"B\\u0065rn\" }", "name": "weather"}, "id": "app_1"}], "content": [{"type": "text", "text": "%s"}], "role": "assistant"},
 {"tool_call_id": "app_1", "role": "tool", "content": [{"type": "text", "text": "It rains."}]}], "model": "gpt-4o"}`, text)
		if status, answer := posted(t, p.data+"/v1/chat/completions", "sk-test", body); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		got := d.conversation(2 + n)
		if back := len(got) == 6; back != (n == 0) {
			t.Errorf("%s: request has %+v", text, got)
		}
	}
}

// Under preamble: hide the client has not seen the model's text before its first call, so that is
// restored as well.
func TestTurnsWithHiddenText(t *testing.T) {
	d := newDesk(t, answertest.Habits()[0], "policies: {default: {mode: tools, tools: {preamble: hide}}}\n", mixedAnswers)
	p := d.replica("")
	a := newCaller(t, true)
	m := a.ask(p).Message
	if m.Content != "And the weather." || len(m.ToolCalls) != 1 {
		t.Fatalf("the client has %+v", m)
	}
	a.messages = append(a.messages, m.ToParam(), openai.ToolMessage("It rains.", m.ToolCalls[0].ID))
	a.end(p)
	got := d.conversation(2)
	if len(got) != 6 || got[0].Text != "Let me look." || got[2].Text != "And the weather." {
		t.Errorf("goes up as %+v", got)
	}
}

// A turn that is too large to keep is left out, and the answer says so.
func TestTurnsTooLarge(t *testing.T) {
	bothWays(t, func(t *testing.T, a *caller) {
		large := slices.Clone(mixedAnswers)
		large[0] = `call search_knowledge#kb_1 {"query":"` + strings.Repeat("x", 300<<10) + `"}`
		large[1] = "text Let me look.\ntext \n" + large[1]
		d := newDesk(t, answertest.Habits()[0], "", large)
		p := d.replica("")
		a.turn(p)
		if !strings.Contains(a.status, "; unkept=size") {
			t.Errorf("Sidenote-Status: %s", a.status)
		}
		a.end(p)
		d.without(2)
		if strings.Contains(a.status, "restored") || strings.Contains(a.status, "unkept") {
			t.Errorf("Sidenote-Status: %s", a.status)
		}
	})
}

// Under the XML protocol, too, a message with a Sidenote call and an app call loses neither: the
// client gets its own call, and Sidenote's call is restored with its result, as a round before the
// message, in the next request. So are rounds before a message that calls the app's tools only.
func TestTurnsInXML(t *testing.T) {
	const (
		first  = `<search_knowledge><query>parental leave</query></search_knowledge>`
		second = `<search_knowledge><query>flights and approval</query></search_knowledge>`
	)
	for name, c := range map[string]struct {
		tools   string // more of the policy
		answers []string
		shown   string
		before  []string // what the model called in each round that is put back
	}{
		"mixed": {"", []string{"text Weather. " + second + "\ncall weather#app_1 {\"city\":\"Bern\"}"}, "Weather. ", []string{second}},
		"text behind the call": {
			"", []string{"text Weather. " + second + " if 1 <\ncall weather#app_1 {\"city\":\"Bern\"}"}, "Weather.  if 1 <", []string{second},
		},
		"two of ours": {"", []string{"text " + first + second + "\ncall weather#app_1 {\"city\":\"Bern\"}"}, "", []string{first + "\n" + second}},
		"a round before, and mixed": {
			"", []string{"text Let me look. " + first, "text Weather. " + second + "\ncall weather#app_1 {\"city\":\"Bern\"}"}, "Let me look. \n\nWeather. ", []string{first, second},
		},
		"a round before": {"", []string{"text Let me look. " + first, "text Weather.\ncall weather#app_1 {\"city\":\"Bern\"}"}, "Let me look. \n\nWeather.", []string{first}},
		"a round before, hidden": {
			", preamble: hide", []string{"text Let me look. " + first, "text Weather.\ncall weather#app_1 {\"city\":\"Bern\"}"}, "Weather.", []string{"Let me look. " + first},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, a *caller) {
				d := newDesk(t, answertest.Habits()[0], "policies: {default: {mode: tools, tools: {protocol: xml"+c.tools+"}}}\n", c.answers, mixedAnswers[2:])
				p := d.replica("")
				m := a.ask(p).Message
				if m.Content != c.shown || len(m.ToolCalls) != 1 || m.ToolCalls[0].Function.Name != "weather" {
					t.Fatalf("the client has %q, %+v", m.Content, m.ToolCalls)
				}
				a.messages = append(a.messages, m.ToParam(), openai.ToolMessage("It rains.", m.ToolCalls[0].ID))
				a.end(p)
				if !strings.Contains(a.status, "; restored=1") {
					t.Errorf("Sidenote-Status: %s", a.status)
				}
				got := d.conversation(len(c.answers))
				if len(got) != 2*len(c.before)+2 {
					t.Fatalf("goes up as %+v", got)
				}
				for i, call := range c.before {
					said, result := got[2*i], got[2*i+1]
					if said.Role != "assistant" || said.Text != call || said.Calls != "" {
						t.Errorf("round %d: %+v, want %q", i, said, call)
					}
					calls := strings.Count(call, "<search_knowledge>")
					if result.Role != "user" || strings.Count(result.Text, `<tool_result tool="search_knowledge" success="true">`) != calls || !strings.Contains(result.Text, ".md:") {
						t.Errorf("round %d: the result of %d calls is %+v", i, calls, result)
					}
				}
				if diff := cmp.Diff([]line{
					{Role: "assistant", Text: c.shown, Calls: weatherCall}, {Role: "tool", Text: "It rains.", Answers: weatherCall},
				}, got[2*len(c.before):]); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
