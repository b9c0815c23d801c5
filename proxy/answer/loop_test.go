package answer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"pgregory.net/rapid"

	"sidenote/proxy/answer"
	"sidenote/proxy/answer/answertest"
)

// ours are the names of our tools in these tests; some of the client's start like them.
var ours = []string{"search_knowledge", "read_knowledge"}

func isOurs(name string) bool { return slices.Contains(ours, name) }

func rules(hide bool) answer.LoopRules {
	return answer.LoopRules{
		HideText: hide, Ours: isOurs,
		MayStartOurs: func(name string) bool {
			return slices.ContainsFunc(ours, func(full string) bool { return strings.HasPrefix(full, name) })
		},
	}
}

// A way is a way to play a dialogue.
type way struct {
	habit  answertest.Habit
	stream bool
	hide   bool // hide text before calls of ours
	last   bool // calls of ours are not answered in the last round
	size   int  // size of the pieces in which streams arrive; 0: a single piece
}

// A TB is the part of testing.TB that play needs.
type TB interface {
	answertest.TB
	Fatalf(format string, arguments ...any)
}

// play plays a dialogue like package rounds, and returns what the client gets and what the upstream
// sent.
func play(t TB, d answertest.Dialogue, w way) (client []byte, said [][]byte) {
	t.Helper()
	u := answertest.Start(t, d, w.habit)
	l := answer.NewLoop(rules(w.hide))
	messages := []json.RawMessage{json.RawMessage(`{"role":"user","content":"?"}`)}
	var out bytes.Buffer
	var splitter answer.Splitter
	for n := range d.Answers {
		l.Begin(w.last && n == len(d.Answers)-1)
		body, err := json.Marshal(map[string]any{"model": "m", "stream": w.stream, "messages": messages, "stream_options": map[string]bool{"include_usage": true}})
		if err != nil {
			t.Fatalf("%v", err)
		}
		ans := httptest.NewRecorder()
		u.ServeHTTP(ans, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
		said = append(said, ans.Body.Bytes())
		var turn answer.LoopTurn
		if w.stream {
			splitter.Reset(true, &out, l.Stage)
			for piece := range slices.Chunk(ans.Body.Bytes(), max(w.size, 1)) {
				if w.size == 0 {
					piece = ans.Body.Bytes()
				}
				if _, err := splitter.Write(piece); err != nil {
					t.Fatalf("%v", err)
				}
				if w.size == 0 {
					break
				}
			}
			if err := splitter.Close(); err != nil {
				t.Fatalf("%v", err)
			}
			if turn, err = l.EndStream(&out); err != nil {
				t.Fatalf("%v", err)
			}
		} else {
			var ok bool
			if turn, ok = l.EndWhole(ans.Body.Bytes()); !ok {
				t.Fatalf("%s: no answer", ans.Body)
			}
		}
		goes := turn.Continues() && !(w.last && n == len(d.Answers)-1)
		if goes != (n < len(d.Answers)-1) {
			t.Fatalf("%s: goes on behind answer %d: %t", d.Name, n+1, goes)
		}
		if !goes {
			if !w.stream {
				client, _ = l.Whole(&turn, nil)
				return client, said
			}
			if err := l.Finish(&out, nil, ""); err != nil {
				t.Fatalf("%v", err)
			}
			return out.Bytes(), said
		}
		if err := l.Continue(&out); err != nil {
			t.Fatalf("%v", err)
		}
		messages = append(messages, turn.Messages()[0])
		for _, c := range turn.OurCalls {
			messages = append(messages, json.RawMessage(fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"found"}`, c.ID)))
		}
	}
	return nil, said
}

// An answerLoop is an answer as a client reads it.
type answerLoop struct {
	Text, Refusal, Finish string
	Calls                 []answertest.Call // without ids, except those set in the dialogue
	Prompt, Tokens        int64
}

// wantOf returns the answer that a client should read.
func wantOf(d answertest.Dialogue, w way) (a answerLoop) {
	for n, said := range d.Answers {
		last := n == len(d.Answers)-1
		a.Prompt, a.Tokens = a.Prompt+int64(said.PromptTokens), a.Tokens+int64(said.Tokens)
		if said.Text != "" && (last || !w.hide) {
			if a.Text != "" && !strings.HasSuffix(a.Text, "\n") {
				a.Text += "\n\n"
			}
			a.Text += said.Text
		}
		a.Refusal += said.Refusal
		if !last {
			continue
		}
		a.Calls = slices.DeleteFunc(slices.Clone(said.Calls), func(c answertest.Call) bool { return isOurs(c.Name) })
		if a.Finish = said.Finish; a.Finish == "tool_calls" && (len(a.Calls) == 0 || w.habit.Stop) {
			a.Finish = "stop"
		}
	}
	if len(a.Calls) == 0 {
		a.Calls = nil
	}
	return a
}

// readOf reads an answer with the official SDK. ids requires each call to have an id.
func readOf(t TB, body []byte, stream, ids bool) answerLoop {
	t.Helper()
	var all openai.ChatCompletion
	if stream {
		events := ssestream.NewStream[openai.ChatCompletionChunk](ssestream.NewDecoder(&http.Response{
			Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(body)),
		}), nil)
		var joined openai.ChatCompletionAccumulator
		for events.Next() {
			if !joined.AddChunk(events.Current()) {
				t.Fatalf("chunk does not fit: %s", events.Current().RawJSON())
			}
		}
		if events.Err() != nil {
			t.Fatalf("%v", events.Err())
		}
		all = joined.ChatCompletion
	} else if err := json.Unmarshal(body, &all); err != nil {
		t.Fatalf("%v", err)
	}
	if len(all.Choices) != 1 {
		t.Fatalf("%d choices: %s", len(all.Choices), body)
	}
	m := all.Choices[0].Message
	a := answerLoop{Text: m.Content, Refusal: m.Refusal, Finish: all.Choices[0].FinishReason, Prompt: all.Usage.PromptTokens, Tokens: all.Usage.CompletionTokens}
	seen := map[string]bool{}
	for _, c := range m.ToolCalls {
		if ids && (c.ID == "" || seen[c.ID]) {
			t.Errorf("the id %q is none, or there twice", c.ID)
		}
		seen[c.ID] = true
		a.Calls = append(a.Calls, answertest.Call{Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return a
}

// checkStream checks what the SDK's accumulator ignores.
func checkStream(t TB, body []byte, repeats bool) {
	t.Helper()
	var roles, finishes, usages, done int
	ids, calls := map[string]bool{}, 0
	for line := range strings.Lines(string(body)) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		if done > 0 {
			t.Errorf("something follows [DONE]: %s", line)
		}
		if data == "[DONE]" {
			done++
			continue
		}
		var event struct {
			ID      string
			Created int64
			Choices []struct {
				Delta struct {
					Role      string
					ToolCalls []struct{ Index *int } `json:"tool_calls"`
				}
				Finish *string `json:"finish_reason"`
			}
			Usage *struct{}
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if ids[fmt.Sprint(event.ID, event.Created)] = true; event.Usage != nil {
			usages++
		}
		for _, c := range event.Choices {
			if c.Delta.Role != "" {
				roles++
			}
			if c.Finish != nil {
				finishes++
			}
			for _, call := range c.Delta.ToolCalls {
				if call.Index == nil || *call.Index > calls {
					t.Fatalf("a call has a wrong number: %s", data)
				}
				calls = max(calls, *call.Index+1)
			}
		}
	}
	if roles != 1 && !(repeats && roles > 0) || finishes != 1 || usages != 1 || done != 1 || len(ids) != 1 {
		t.Errorf("%d roles, %d reasons to finish, %d usages, %d [DONE], ids and times %v\n%s", roles, finishes, usages, done, ids, body)
	}
}

// check plays a dialogue and compares what the client gets with what was sent.
func check(t TB, d answertest.Dialogue, w way) {
	t.Helper()
	client, _ := play(t, d, w)
	if w.stream {
		checkStream(t, client, w.habit.Repeats)
	}
	want := wantOf(d, w)
	for i := range want.Calls {
		want.Calls[i].ID = ""
	}
	passed := !w.stream && len(want.Calls) == len(d.Answers[0].Calls) // passed on unchanged, with or without ids
	if diff := cmp.Diff(want, readOf(t, client, w.stream, !passed)); diff != "" {
		t.Errorf("%s, %s, stream %t, hide %t, pieces %d: %s\n%s", d.Name, w.habit.Name, w.stream, w.hide, w.size, diff, client)
	}
	for _, name := range ours {
		if bytes.Contains(client, []byte(`"`+name+`"`)) {
			t.Errorf("%s, %s: the client sees a call of ours: %s", d.Name, w.habit.Name, client)
		}
	}
}

func dialogue(t testing.TB, name string, answers ...string) answertest.Dialogue {
	t.Helper()
	d := answertest.Dialogue{Name: name}
	for _, text := range answers {
		a, err := answertest.ParseAnswer(text)
		if err != nil {
			t.Fatal(err)
		}
		d.Answers = append(d.Answers, a)
	}
	return d
}

const search, readLoop, weather = `call search_knowledge {"query":"Elternzeit <b> & \"mehr\""}`, `call read_knowledge {"refs":["staff:leave.md:1"]}`, `call weather {"city":"Zürich"}`

// dialogues returns the dialogues that end with their last answer, whether or not that is in the
// last round.
func dialogues(t testing.TB) []answertest.Dialogue {
	return []answertest.Dialogue{
		dialogue(t, "text", "text 14 weeks [1] 😀."),
		dialogue(t, "one round", search, "text 14 weeks."),
		dialogue(t, "three rounds", "text Let me look.\n"+search+"\nusage 100 7", "text Now I read.\n"+readLoop+"\n"+readLoop+"\nusage 200 9", search, "text It is 14.\nusage 300 11"),
		dialogue(t, "text that ends with a line", "text Let me look:\ntext \n"+search, "text It is 14."),
		dialogue(t, "theirs", "text Rain?\n"+weather+"\n"+weather),
		dialogue(t, "rounds before theirs", search, "text Rain?\n"+weather+"\ncall search {}"),
		dialogue(t, "mixed", search, "text Both.\n"+search+"\n"+weather+"\n"+readLoop+"\ncall search_knowledge_2 {}"),
		dialogue(t, "length", search, "text 14\n"+search+"\nfinish length"),
		dialogue(t, "filtered", "text 14\nfinish content_filter"),
		dialogue(t, "refusal", search, "refusal I cannot help with that."),
		dialogue(t, "nothing", search, "usage 1 0"),
		dialogue(t, "reasoning", "reasoning They ask for leave.\ntext I look.\n"+search, "reasoning Found.\ntext It is 14."),
	}
}

// A client gets a single message for all rounds, however the upstream encodes and splits it.
func TestHabits(t *testing.T) {
	for _, d := range dialogues(t) {
		for _, h := range answertest.Habits() {
			for _, hide := range []bool{false, true} {
				check(t, d, way{habit: h, hide: hide})
				check(t, d, way{habit: h, hide: hide, stream: true})
				check(t, d, way{habit: h, hide: hide, stream: true, size: 7})
			}
		}
		for cut := range d.Longest() {
			if testing.Short() && cut%8 > 0 {
				continue
			}
			h := answertest.Habits()[0]
			h.Pieces = answertest.At(cut)
			check(t, d, way{habit: h, stream: true})
			h.NameApart = true
			check(t, d, way{habit: h, stream: true, hide: true})
		}
	}
}

// In the last round the client gets no calls of ours, even if the model makes some.
func TestLastRound(t *testing.T) {
	for _, d := range []answertest.Dialogue{
		dialogue(t, "calls", search, "text Even so.\n"+search+"\n"+readLoop),
		dialogue(t, "mixed", search, search+"\n"+weather),
	} {
		for _, h := range answertest.Habits() {
			check(t, d, way{habit: h, last: true})
			check(t, d, way{habit: h, last: true, stream: true})
			check(t, d, way{habit: h, last: true, stream: true, hide: true})
		}
	}
}

// Answers without calls of ours pass byte for byte if they number and identify calls and have the
// role only once.
func TestPassesBytes(t *testing.T) {
	for _, d := range []answertest.Dialogue{
		dialogue(t, "text", "reasoning Hm.\ntext 14 weeks [1] 😀."), dialogue(t, "theirs", "text Rain?\n"+weather+"\ncall search_knowledge_2 {}"),
		dialogue(t, "refusal", "refusal No."), dialogue(t, "cut", "text 14\nfinish length"),
	} {
		for _, h := range answertest.Habits() {
			client, said := play(t, d, way{habit: h})
			if !bytes.Equal(client, said[0]) {
				t.Errorf("%s, %s\n got %s\nwant %s", d.Name, h.Name, client, said[0])
			}
			if h.NoIDs || h.NoIndex || h.SameIndex || h.Repeats {
				continue
			}
			if client, said = play(t, d, way{habit: h, stream: true, size: 5}); !bytes.Equal(client, said[0]) {
				t.Errorf("%s, %s\n got %s\nwant %s", d.Name, h.Name, client, said[0])
			}
		}
	}
}

// Any dialogue becomes a single message, with any habit and split.
func TestAnyDialogue(t *testing.T) {
	habits := answertest.Habits()
	text := rapid.StringOf(rapid.SampledFrom([]rune("abc \n\"\\<&ä查😀{}[]")))
	callOf := func(names ...string) *rapid.Generator[answertest.Call] {
		return rapid.Custom(func(t *rapid.T) answertest.Call {
			arguments, _ := json.Marshal(map[string]string{"query": text.Draw(t, "query")})
			return answertest.Call{Name: rapid.SampledFrom(names).Draw(t, "name"), Arguments: string(arguments)}
		})
	}
	our, any := callOf(ours...), callOf(append([]string{"weather", "search", "search_knowledge_2", "s"}, ours...)...)
	rapid.Check(t, func(t *rapid.T) {
		d := answertest.Dialogue{Name: "any"}
		for range rapid.IntRange(0, 3).Draw(t, "rounds") {
			d.Answers = append(d.Answers, answertest.Answer{Text: text.Draw(t, "text"), Calls: rapid.SliceOfN(our, 1, 3).Draw(t, "calls"), Finish: "tool_calls", PromptTokens: 3, Tokens: 2})
		}
		end := answertest.Answer{Text: text.Draw(t, "text"), Finish: "stop", PromptTokens: 5, Tokens: 1, Calls: rapid.SliceOfN(any, 0, 4).Draw(t, "calls")}
		if len(end.Calls) > 0 {
			end.Finish = "tool_calls"
		}
		d.Answers = append(d.Answers, end)
		w := way{
			habit: rapid.SampledFrom(habits).Draw(t, "habit"), stream: rapid.Bool().Draw(t, "stream"), hide: rapid.Bool().Draw(t, "hide"), last: true,
			size: rapid.IntRange(0, 40).Draw(t, "size"),
		}
		if rapid.Bool().Draw(t, "cut") {
			w.habit.Pieces = answertest.At(rapid.IntRange(1, 20).Draw(t, "at"))
		}
		check(t, d, w)
	})
}
