package rewrite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"sidenote/rewrite"
	"sidenote/rewrite/chunks"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

type modelsAssemble struct{ tokens.Counter }

func (m modelsAssemble) Model(name string) model.Model {
	return model.Model{Row: name, Encoding: "o200k_base", Counter: m.Counter, NoSystem: name == "no-system"}
}

func assembler(t *testing.T) (*rewrite.Assembler, tokens.Counter) {
	t.Helper()
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	return rewrite.NewAssembler(modelsAssemble{counter}), counter
}

const state = `{"model":"gpt-4o","chunks":[{"id":"s1","type":"system","content":"You book hotels."},{"id":"u1","type":"agent","role":"user","content":"A hotel in Rome?"},
	{"id":"e1","type":"environment","content":"x"}],"context":{"exclude_types":["environment"]},
	"components":[{"name":"rules","text":"Be brief."}],"sources":[{"doc_id":"rome.md","name":"Rome","text":"Roma has </chunk> forty rooms."}]}`

// Chunks, components and sources become messages, counted exactly, without knowledge bases or an
// upstream.
func TestBuild(t *testing.T) {
	a, counter := assembler(t)
	p := rewrite.DefaultPolicy()
	p.Knowledge, p.Mode = []string{"handbook"}, rewrite.Off // must be ignored
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
	// Another model, and only chunks of a role other than user.
	r, err = a.Build(t.Context(), p, []byte(`{"chunks":[{"id":"o","type":"output","content":"Done."}],"sources":[{"text":"Roma."}]}`), "no-system")
	if err != nil || !strings.Contains(string(r.Messages), `"role":"assistant"`) {
		t.Errorf("%v %+v", err, r)
	}
}

// Concurrent calls do not mix their states.
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

// An error names the position in the state.
func TestRefused(t *testing.T) {
	a, _ := assembler(t)
	const ok = `{"id":"a","type":"custom","content":"x"}`
	for state, want := range map[string]string{
		`[]`:          `the state is an array, not an object`,
		`{"chunks":[`: `body is not JSON: it ends where a value is expected`,
		`{}`:          `chunks: missing, and there are neither components nor sources`,
		`{"chunks":null,"components":null,"sources":null,"context":{}}`: `chunks: missing, and there are neither components nor sources`,
		`{"sources":[{"text":"x"}],"as_given":"yes"}`:                   `as_given: a string, not true or false`,
		`{"sources":[{"text":"x"}],"context":{"fit":"best"}}`:           `context.fit: "best" is not a way to fit; use first, recent or priority`,
		`{"sources":[{"text":"x"},{"text":"x","arm":"graph"}]}`:         `sources[1].arm: "graph" is not an arm; use bm25 or vector`,
		`{"sources":[{"text":"x","arm":1}]}`:                            `sources[0].arm: number, not a string`,
		`{"chunks":[],"chunks":[]}`:                                     `chunks: is repeated`,
		`{"chunks":[],"messages":[]}`:                                   `messages: unknown field; use model, chunks, context, components, context_tokens, sources or as_given`,
		`{"chunks":[{"id":"a","type":"custom","content":null}]}`:        `chunks[0].content: null; a content is a string or any other JSON value`,
		`{"chunks":[{"id":"a","type":"custom","content":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}]}`: `chunks[0].content: nested too deep`,
		`{"chunks":[` + ok + `],"context":{"fit":"best"}}`:                                                                `context.fit: "best" is not a way to fit; use first, recent or priority`,
		`{"chunks":[` + ok + `],"components":[{"name":"A","text":"x"}]}`:                                                  `components[0].name: "A" is not a name: 1 to 64 of a-z, 0-9, '_' and '-', not "sources"`,
		`{"chunks":[` + ok + `],"sources":{}}`:                                                                            `sources: not an array`,
		`{"chunks":[` + ok + `],"sources":[{"text":"a"},{"text":" "}]}`:                                                   `sources[1].text: empty`,
		`{"chunks":[` + ok + `],"sources":[{"text":"x"},{"text":"x","score":"a"}]}`:                                       `sources[1].score: string, not a number`,
		`{"chunks":[` + ok + `],"sources":[{"text":{}}]}`:                                                                 `sources[0].text: object, not a string`,
		`{"chunks":[` + ok + `],"sources":[{"url":"a"}]}`:                                                                 `sources[0]: unknown field "url"; use kb_id, doc_id, type, name, section, text, score or arm`,
		`{"chunks":[` + ok + `],"sources":[` + strings.Repeat(`{},`, 100) + `{}]}`:                                        `sources: 101 sources; at most 100`,
		`{"chunks":[` + ok + `],"model":7}`:                                                                               `model: a number`,
	} {
		if _, err := a.Build(t.Context(), rewrite.DefaultPolicy(), []byte(state), ""); err == nil || err.Error() != want {
			t.Errorf("%.60s: %v, want %s", state, err, want)
		}
	}
}

// If nothing fits, or everything is excluded, the result says so.
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

// Components and sources become messages even without chunks, or if none of them is added.
func TestBuildWithoutChunks(t *testing.T) {
	a, counter := assembler(t)
	const component, source = "<component name=\"rules\">\nBe brief.\n</component>", "Roma has forty rooms.\n</source>"
	const components, sources = `"components":[{"name":"rules","text":"Be brief."}]`, `"sources":[{"doc_id":"rome.md","text":"Roma has forty rooms."}]`
	for _, c := range []struct {
		state, model string
		role         string
		parts        []string
		excluded     int
	}{
		{`{` + components + `}`, "", "system", []string{component}, 0},
		{`{` + sources + `}`, "", "system", []string{source}, 0},
		{`{` + components + `,` + sources + `}`, "", "system", []string{component, source}, 0},
		{`{"chunks":[],` + components + `,` + sources + `}`, "", "system", []string{component, source}, 0},
		{`{"chunks":null,"context":null,"as_given":null,` + components + `,` + sources + `}`, "", "system", []string{component, source}, 0},
		{`{"context":{"max_tokens":100},` + sources + `}`, "", "system", []string{source}, 0},
		{`{"context":{"system_prompt":"You book hotels."},` + components + `,` + sources + `}`, "", "system", []string{"You book hotels.", component, source}, 0},
		{`{"chunks":[{"id":"a","type":"output","content":"x"}],"context":{"exclude_types":["output"]},` + components + `,` + sources + `}`, "", "system", []string{component, source}, 1},
		{`{"chunks":[{"id":"a","type":"output","content":"` + strings.Repeat("word ", 200) + `"}],"context":{"max_tokens":100},` + components + `}`, "", "system", []string{component}, 1},
		{`{` + components + `,` + sources + `}`, "no-system", "user", []string{component, source}, 0},
		{`{"components":[],"sources":[]}`, "", "", nil, 0},
		{`{"sources":[]}`, "no-system", "", nil, 0},
	} {
		for _, placement := range []rewrite.Placement{rewrite.PlaceSystem, rewrite.PlaceLastUser, rewrite.PlaceSplit, rewrite.PlaceMarker} {
			p := rewrite.DefaultPolicy()
			p.Placement = placement
			r, err := a.Build(t.Context(), p, []byte(c.state), c.model)
			if err != nil {
				t.Errorf("%.80s, %s: %v", c.state, placement, err)
				continue
			}
			var messages []struct{ Role, Content string }
			if err := json.Unmarshal(r.Messages, &messages); err != nil {
				t.Fatalf("%v: %s", err, r.Messages)
			}
			if len(r.Included) != 0 || r.Included == nil || r.Excluded == nil || len(r.Excluded) != c.excluded || !r.Exact {
				t.Errorf("%.80s, %s: in %v, out %v, exact %t", c.state, placement, r.Included, r.Excluded, r.Exact)
			}
			if c.role == "" {
				if len(messages) != 0 || r.TokenCount != 0 {
					t.Errorf("%.80s, %s: %s", c.state, placement, r.Messages)
				}
				continue
			}
			if len(messages) != 1 || messages[0].Role != c.role {
				t.Errorf("%.80s, %s: %s", c.state, placement, r.Messages)
				continue
			}
			for _, part := range c.parts {
				if strings.Count(messages[0].Content, part) != 1 {
					t.Errorf("%.80s, %s: %q is not in %q", c.state, placement, part, messages[0].Content)
				}
			}
			if n, _ := counter.Count(messages[0].Content); n+tokens.MessageOverhead != r.TokenCount {
				t.Errorf("%.80s, %s: told %d tokens, recounted %d", c.state, placement, r.TokenCount, n+tokens.MessageOverhead)
			}
		}
	}
}

// broughtSources are sources of two documents, and some without a document.
const broughtSources = `[
	{"doc_id":"a","text":"Every parent may take sixteen weeks of leave.","score":1,"arm":"bm25"},
	{"doc_id":"a","text":"Rome has forty hotels near the river.","score":5,"arm":"vector"},
	{"doc_id":"b","text":"Rome has forty hotels near the river.","score":40,"arm":"bm25"},
	{"doc_id":"a","text":"Boil pasta in salted water for nine minutes.","score":3,"arm":"bm25"},
	{"doc_id":"a","text":"The museum opens at ten and closes at six.","score":2,"arm":"bm25"},
	{"text":"Trains to Oslo leave at noon.","score":-2},
	{"text":"Invoices are paid within thirty days."},
	{"text":"Bicycles may be rented at the harbour."},
	{"text":"The library lends twelve books at once."},
	{"text":"Dogs are welcome in the garden cafe."},
	{"doc_id":"a","text":"Our office has moved to Elm Street.","score":0.5}]`

// The caller's sources are ordered by score, those of equal scores as given; duplicates and those
// over the limit per document are left out, unless as_given is true. The ledger counts them.
func TestBroughtSourcesAreSelected(t *testing.T) {
	a, _ := assembler(t)
	for _, c := range []struct {
		state   string
		share   int // maximum per document in the policy
		in, out string
		unique  int
	}{
		{`{"sources":` + broughtSources + `}`, 3, "b#2 a#3 a#4 a#0 #6 #7 #8 #9 #5", "a#1 duplicate of b#2, a#10 3 of a already", 10},
		{`{"sources":` + broughtSources + `,"as_given":false}`, 0, "b#2 a#3 a#4 a#0 #6 #7 #8 #9 #5", "a#1 duplicate of b#2, a#10 3 of a already", 10},
		{`{"sources":` + broughtSources + `}`, 1, "b#2 a#3 #6 #7 #8 #9 #5", "a#1 duplicate of b#2, a#4 1 of a already, a#0 1 of a already, a#10 1 of a already", 10},
		{`{"sources":` + broughtSources + `,"as_given":true}`, 3, "a#0 a#1 b#2 a#3 a#4 #5 #6 #7 #8 #9 a#10", "", 11},
	} {
		p := rewrite.DefaultPolicy()
		p.Search.MaxPerDocument = c.share
		r, err := a.Build(t.Context(), p, []byte(c.state), "m")
		if err != nil {
			t.Fatal(err)
		}
		var in, out []string
		arms := map[string]int{}
		last := 0
		for _, s := range r.Ledger.Sources {
			name := fmt.Sprintf("%s#%d", s.Doc, s.Chunk)
			if s.Inclusion == rewrite.Excluded {
				out = append(out, name+" "+s.Detail)
				continue
			}
			in = append(in, name)
			arms[string(s.Arm)]++
			text := fmt.Sprintf(`<source id=\"%d\" type=\"rag\" kb_id=\"state\" doc_id=\"%s\"`, s.ID, s.Doc)
			at := strings.Index(string(r.Messages), text)
			if at <= last {
				t.Errorf("%s stands at %d of %s", text, at, r.Messages)
			}
			last = at
		}
		if got := strings.Join(in, " "); got != c.in {
			t.Errorf("in %s, want %s", got, c.in)
		}
		if got := strings.Join(out, ", "); got != c.out {
			t.Errorf("out %s, want %s", got, c.out)
		}
		l := r.Ledger
		if l.TotalChunksRetrieved != 11 || l.UniqueChunksAfterDedup != c.unique || l.ChunksSelected != len(in) || len(in)+len(out) != 11 {
			t.Errorf("retrieved %d, unique %d, selected %d; %d in and %d out", l.TotalChunksRetrieved, l.UniqueChunksAfterDedup, l.ChunksSelected, len(in), len(out))
		}
		if !maps.Equal(l.ChunkSources, arms) || arms["bm25"] == 0 || arms["given"] == 0 {
			t.Errorf("chunk_sources %v, sources in by arm %v", l.ChunkSources, arms)
		}
	}
}
