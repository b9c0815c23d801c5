package answer_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"pgregory.net/rapid"

	"sidenote/proxy/answer"
)

// The official SDK reads the same answer from the events as from the whole answer.
func TestEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, refusal := rapid.String().Draw(t, "text"), rapid.SampledFrom([]string{"", "I can't."}).Draw(t, "refusal")
		asked := rapid.Bool().Draw(t, "usage")
		whole, err := json.Marshal(map[string]any{
			"id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "m", "system_fingerprint": "f",
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text, "refusal": refusal}}},
			"usage":   map[string]any{"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
		})
		if err != nil {
			t.Fatal(err)
		}
		events := answer.NewLoop(answer.LoopRules{}).Events(whole, asked, "x")
		stream := ssestream.NewStream[openai.ChatCompletionChunk](ssestream.NewDecoder(&http.Response{
			Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(events)),
		}), nil)
		var got openai.ChatCompletionAccumulator
		for stream.Next() {
			if chunk := stream.Current(); string(chunk.Object) != "chat.completion.chunk" || !got.AddChunk(chunk) {
				t.Fatalf("%s is no piece of it", chunk.RawJSON())
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		var want openai.ChatCompletion
		if err := json.Unmarshal(whole, &want); err != nil {
			t.Fatal(err)
		}
		usage := int64(0)
		if asked {
			usage = 7
		}
		type ans struct {
			ID, Model, Text, Refusal, Finish string
			Created, Usage                   int64
		}
		of := func(c *openai.ChatCompletion, usage int64) ans {
			m := c.Choices[0]
			return ans{c.ID, c.Model, m.Message.Content, m.Message.Refusal, m.FinishReason, c.Created, usage}
		}
		if diff := cmp.Diff(of(&want, usage), of(&got.ChatCompletion, got.Usage.TotalTokens)); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

const (
	draft  = `{"id":"d","choices":[{"index":0,"message":{"role":"assistant","content":"a draft"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"total_tokens":12}}`
	review = `{"id":"r","choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"total_tokens":101}}`
)

// The answer of an earlier round is returned with the summed usage of all rounds, or with its own.
func TestReturn(t *testing.T) {
	for last, want := range map[bool]string{false: `"prompt_tokens":110,"total_tokens":113`, true: `"prompt_tokens":10,"total_tokens":12`} {
		r := rules(true)
		r.LastUsage = last
		l := answer.NewLoop(r)
		for _, body := range []string{draft, review} {
			l.Begin(false)
			if _, ok := l.EndWhole([]byte(body)); !ok {
				t.Fatal("no answer")
			}
			if err := l.Continue(io.Discard); err != nil {
				t.Fatal(err)
			}
		}
		got := string(l.ReplayWhole([]byte(draft)))
		var usage struct {
			Usage map[string]int
			ID    string
		}
		if err := json.Unmarshal([]byte(got), &usage); err != nil {
			t.Fatal(err)
		}
		if tokens, _ := json.Marshal(usage.Usage); !strings.Contains(string(tokens), want) || !strings.Contains(got, `"content":"a draft"`) || usage.ID != "d" {
			t.Errorf("%v: %s", last, got)
		}
	}
}

// A dropped round leaves no trace in the next answer, which has its own role and id.
func TestDrop(t *testing.T) {
	l := answer.NewLoop(rules(true))
	var out bytes.Buffer
	say := func(events ...string) {
		l.Begin(true)
		to := l.Stage(&out)
		for _, e := range events {
			if _, err := io.WriteString(to, e+"\n\n"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.EndStream(&out); err != nil {
			t.Fatal(err)
		}
	}
	role := `data: {"id":"%","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	say(strings.Replace(role, "%", "one", 1))
	say(`data: {"id":"one","choices":[{"index":0,"delta":{"content":" \n"},"finish_reason":null}]}`, `data: {"id":"one","choices":[{"index":0,"delta":{"content":"\n"},"finish_reason":null}]}`)
	if l.HasOutput() || l.HasOutput() {
		t.Error("a role and white space are said to say something")
	}
	l.DiscardRound()
	out.Reset()
	say(strings.Replace(role, "%", "two", 1), `data: {"id":"two","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}`, "data: [DONE]")
	if !l.HasOutput() {
		t.Error("nothing is said")
	}
	if err := l.Finish(&out, nil, ""); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "one") || strings.Count(got, `"role"`) != 1 || !strings.Contains(got, `"Hi"`) {
		t.Error(got)
	}
	for _, delta := range []string{`{"reasoning_content":"hm"}`, `{"refusal":"no"}`, `{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}`} {
		say(`data: {"id":"three","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`)
		if !l.HasOutput() {
			t.Errorf("%s is said to say nothing", delta)
		}
	}
}

// Says returns the text of a string or of text parts, without reasoning. White space counts as
// nothing.
func TestSays(t *testing.T) {
	for content, want := range map[string]string{
		`"Hi "`: "Hi ", `" \n"`: "", `null`: "", `[]`: "", `[{"type":"text","text":" "}]`: "", `[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]`: "",
		`[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"Hi "},{"type":"text","text":"you"},7]`: "Hi you",
	} {
		turn, ok := answer.NewLoop(answer.LoopRules{Ours: func(string) bool { return false }}).EndWhole([]byte(`{"choices":[{"message":{"role":"assistant","content":` + content + `}}]}`))
		if got := turn.MessageText(); !ok || got != want {
			t.Errorf("%s says %q, want %q", content, got, want)
		}
	}
}
