package assemble_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/assemble"
	"sidenote/rewrite/chunks"
	"sidenote/rewrite/tokens"
)

type models struct{ tokens.Counter }

func (m models) Model(name string) rewrite.Model {
	return rewrite.Model{Row: name, Encoding: "o200k_base", Counter: m.Counter, NoSystem: name == "no-system"}
}

func assembler(t *testing.T) (*assemble.Assembler, tokens.Counter) {
	t.Helper()
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	return assemble.New(models{counter}), counter
}

const state = `{"model":"gpt-4o","chunks":[{"id":"s1","type":"system","content":"You book hotels."},{"id":"u1","type":"agent","role":"user","content":"A hotel in Rome?"},
	{"id":"e1","type":"environment","content":"x"}],"context":{"exclude_types":["environment"]},
	"components":[{"name":"rules","text":"Be brief."}],"sources":[{"doc_id":"rome.md","name":"Rome","text":"Roma has </chunk> forty rooms."}]}`

// Chunks, components and sources become messages, counted exactly, without knowledge or an
// upstream.
func TestBuild(t *testing.T) {
	a, counter := assembler(t)
	p := rewrite.DefaultPolicy()
	p.Knowledge, p.Mode = []string{"handbook"}, rewrite.Off // neither searched nor obeyed
	r, err := a.Build(t.Context(), p, []byte(state), "")
	if err != nil {
		t.Fatal(err)
	}
	var messages []struct{ Role, Content string }
	if err := json.Unmarshal(r.Messages, &messages); err != nil || len(messages) != 2 {
		t.Fatalf("%v: %s", err, r.Messages)
	}
	count := 0
	for _, m := range messages {
		n, _ := counter.Count(m.Content)
		count += n + tokens.MessageOverhead
	}
	if count != r.TokenCount || !r.Exact {
		t.Errorf("told %d tokens, exact %t; recounted %d", r.TokenCount, r.Exact, count)
	}
	system := messages[0]
	if system.Role != "system" || !strings.HasPrefix(system.Content, "<system_context id=\"s1\">\nYou book hotels.\n</system_context>\n\n<sources>\n") ||
		!strings.Contains(system.Content, `<source id="1" type="rag" kb_id="state" doc_id="rome.md" name="Rome">`+"\nRoma has [/chunk> forty rooms.\n</source>") ||
		!strings.HasSuffix(system.Content, "<component name=\"rules\">\nBe brief.\n</component>\n") {
		t.Errorf("%q", system)
	}
	if strings.Join(r.Included, " ") != "s1 u1" || len(r.Excluded) != 1 || r.Excluded[0].ID != "e1" || r.Excluded[0].Reason != chunks.OutType {
		t.Errorf("in %v, out %v", r.Included, r.Excluded)
	}
	// Another model, and nothing but chunks of another role than the user's.
	r, err = a.Build(t.Context(), p, []byte(`{"chunks":[{"id":"o","type":"output","content":"Done."}],"sources":[{"text":"Roma."}]}`), "no-system")
	if err != nil || !strings.Contains(string(r.Messages), `"role":"assistant"`) {
		t.Errorf("%v %+v", err, r)
	}
}

// States of several callers do not mix.
func TestBuildAtOnce(t *testing.T) {
	a, _ := assembler(t)
	done := make(chan error)
	for _, who := range []string{"Anna", "Otto"} {
		go func() {
			var err error
			for range 50 {
				r, failed := a.Build(t.Context(), rewrite.DefaultPolicy(), []byte(`{"chunks":[{"id":"u","type":"agent","role":"user","content":"Hi"}],"sources":[{"text":"`+who+`"}]}`), "")
				if failed != nil || strings.Count(string(r.Messages), who) != 1 || strings.Contains(string(r.Messages), map[string]string{"Anna": "Otto", "Otto": "Anna"}[who]) {
					err = errors.New(who + " got another's messages")
				}
			}
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A mistake is named by where it stands in the state.
func TestRefused(t *testing.T) {
	a, _ := assembler(t)
	const ok = `{"id":"a","type":"custom","content":"x"}`
	for state, want := range map[string]string{
		`[]`:                          `the state is an array, not an object`,
		`{"chunks":[`:                 `body is not JSON: it ends where a value should stand`,
		`{}`:                          `chunks: missing`,
		`{"chunks":null}`:             `chunks: missing`,
		`{"chunks":[],"chunks":[]}`:   `chunks: stands twice`,
		`{"chunks":[],"messages":[]}`: `messages: unknown field; use model, chunks, context, components, context_tokens or sources`,
		`{"chunks":[{"id":"a","type":"custom","content":null}]}`:                                                          `chunks[0].content: null; a content is a string or any other JSON value`,
		`{"chunks":[{"id":"a","type":"custom","content":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}]}`: `chunks[0].content: nested too deep`,
		`{"chunks":[` + ok + `],"context":{"fit":"best"}}`:                                                                `context.fit: "best" is not a way to fit; use first, recent or priority`,
		`{"chunks":[` + ok + `],"components":[{"name":"A","text":"x"}]}`:                                                  `components[0].name: "A" is not a name: 1 to 64 of a-z, 0-9, '_' and '-', not "sources"`,
		`{"chunks":[` + ok + `],"sources":{}}`:                                                                            `sources: not an array`,
		`{"chunks":[` + ok + `],"sources":[{"text":"a"},{"text":" "}]}`:                                                   `sources[1].text: empty`,
		`{"chunks":[` + ok + `],"sources":[{"text":"x"},{"text":"x","score":"a"}]}`:                                       `sources[1].score: string, not a number`,
		`{"chunks":[` + ok + `],"sources":[{"text":{}}]}`:                                                                 `sources[0].text: object, not a string`,
		`{"chunks":[` + ok + `],"sources":[{"url":"a"}]}`:                                                                 `sources[0]: unknown field "url"; use kb_id, doc_id, type, name, section, text or score`,
		`{"chunks":[` + ok + `],"sources":[` + strings.Repeat(`{},`, 100) + `{}]}`:                                        `sources: 101 sources; at most 100`,
		`{"chunks":[` + ok + `],"model":7}`:                                                                               `model: a number`,
	} {
		if _, err := a.Build(t.Context(), rewrite.DefaultPolicy(), []byte(state), ""); err == nil || err.Error() != want {
			t.Errorf("%.60s: %v, want %s", state, err, want)
		}
	}
}

// Where nothing fits, or all is excluded, that is a result which says so.
func TestNothingIsIn(t *testing.T) {
	for state, reason := range map[string]string{
		`{"model":"m","chunks":[{"id":"a","type":"output","content":"x"}],"context":{"exclude_types":["output"]}}`: "a",
		`{"model":"m","chunks":[]}`: "",
	} {
		a, _ := assembler(t)
		res, err := a.Build(t.Context(), rewrite.DefaultPolicy(), []byte(state), "")
		if err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		if string(res.Messages) != "[]" || len(res.Included) != 0 || res.TokenCount != 0 || len(res.Excluded) > 0 != (reason != "") || reason != "" && (res.Excluded[0].ID != reason || res.Excluded[0].Reason == "") {
			t.Errorf("%s: %+v", state, res)
		}
	}
}
