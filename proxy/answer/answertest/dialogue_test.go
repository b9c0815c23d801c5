package answertest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"sidenote/proxy/answer/answertest"
	"sidenote/rewrite/goldentest"
)

// A client plays a dialogue to its end like an application, with the official SDK: it answers each
// call.
type client struct {
	sdk      openai.Client
	stream   bool
	messages []openai.ChatCompletionMessageParamUnion
}

func newClient(u *answertest.Upstream, stream bool) *client {
	return &client{
		sdk:      openai.NewClient(option.WithBaseURL(u.URL), option.WithAPIKey("k"), option.WithMaxRetries(0)),
		stream:   stream,
		messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("?")},
	}
}

// next returns the upstream's next answer.
func (c *client) next(ctx context.Context) (openai.ChatCompletion, error) {
	params := openai.ChatCompletionNewParams{Model: "m", Messages: c.messages}
	if !c.stream {
		whole, err := c.sdk.Chat.Completions.New(ctx, params)
		if err != nil {
			return openai.ChatCompletion{}, err
		}
		return *whole, nil
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.sdk.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			return all.ChatCompletion, fmt.Errorf("chunk does not fit: %s", stream.Current().RawJSON())
		}
	}
	return all.ChatCompletion, stream.Err()
}

// reply answers the calls of an answer.
func (c *client) reply(answer openai.ChatCompletion) {
	m := answer.Choices[0].Message
	c.messages = append(c.messages, m.ToParam())
	for _, call := range m.ToolCalls {
		c.messages = append(c.messages, openai.ToolMessage("result", call.ID))
	}
}

// The official SDK reads each dialogue correctly, however the server encodes it. Habits that it
// does not support are in TestHabits.
func TestDialogues(t *testing.T) {
	for _, a := range goldentest.Load(t, "testdata") {
		d := answertest.Read(t, a)
		for _, h := range answertest.Habits() {
			for _, stream := range []bool{false, true} {
				if h.NoIDs || stream && (h.NoIndex || h.SameIndex) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%t", d.Name, h.Name, stream), func(t *testing.T) { play(t, d, h, stream) })
			}
		}
		for cut := range d.Longest() {
			h := answertest.Habits()[0]
			h.Pieces = answertest.At(cut)
			play(t, d, h, true)
		}
	}
}

func play(t *testing.T, d answertest.Dialogue, h answertest.Habit, stream bool) {
	t.Helper()
	u := answertest.Start(t, d, h)
	c := newClient(u, stream)
	for n, a := range d.Answers {
		got, err := c.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := got.Choices[0].Message
		said := answertest.Answer{Text: m.Content, Refusal: m.Refusal, Finish: got.Choices[0].FinishReason, PromptTokens: int(got.Usage.PromptTokens), Tokens: int(got.Usage.CompletionTokens)}
		for i, call := range m.ToolCalls {
			id := ""
			if a.Calls[i].ID != "" {
				id = call.ID
			}
			if len(call.ID) < h.IDLength && id == "" {
				t.Errorf("%q is no id of %s", call.ID, h.Name)
			}
			said.Calls = append(said.Calls, answertest.Call{ID: id, Name: call.Function.Name, Arguments: call.Function.Arguments})
		}
		want := a
		want.Reasoning = ""
		if h.Stop {
			want.Finish = strings.Replace(a.Finish, "tool_calls", "stop", 1)
		}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("answer %d, %s: %s", n+1, h.Name, diff)
		}
		c.reply(got)
	}
	if n := len(u.Requests()); n != len(d.Answers) {
		t.Errorf("%d requests", n)
	}
}

// post sends a request and returns the answer's status and bytes.
func post(t *testing.T, u *answertest.Upstream, body string) (int, string, error) {
	t.Helper()
	res, err := http.Post(u.URL, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, string(answer), err
}

// habit returns the habit with that name.
func habit(t *testing.T, name string) answertest.Habit {
	t.Helper()
	all := answertest.Habits()
	i := slices.IndexFunc(all, func(h answertest.Habit) bool { return h.Name == name })
	if i < 0 {
		t.Fatal("no habit " + name)
	}
	return all[i]
}

func parse(t *testing.T, text string) answertest.Answer {
	t.Helper()
	a, err := answertest.ParseAnswer(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// How each habit encodes two calls.
func TestHabits(t *testing.T) {
	a := parse(t, "call f {\"a\":1}\ncall g#mine {}")
	for name, want := range map[string]string{
		"openai": `{"tool_calls":[{"index":0,"id":"call_000000000000000000000100","type":"function","function":{"name":"f","arguments":""}}]}
{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}
{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}
{"tool_calls":[{"index":1,"id":"mine","type":"function","function":{"name":"g","arguments":""}}]}
{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}
{} tool_calls`,
		"ollama-0.5": `{"role":"assistant","tool_calls":[{"id":"call_00000100","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}
{"role":"assistant","tool_calls":[{"id":"mine","type":"function","function":{"name":"g","arguments":"{}"}}]}
{} stop`,
		"vllm": `{"tool_calls":[{"index":0,"id":"chatcmpl-tool-00000000000000000000000000000100","type":"function","function":{"name":"f"}}]}
{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}
{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}
{"tool_calls":[{"index":1,"id":"mine","type":"function","function":{"name":"g"}}]}
{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}
{} tool_calls`,
		"repeating": `{"role":"assistant","tool_calls":[{"index":0,"id":"call_000000000000000000000100","type":"function","function":{"name":"f","arguments":""}}]}
{"role":"assistant","tool_calls":[{"index":0,"id":"call_000000000000000000000100","type":"function","function":{"arguments":"{\"a\":"}}]}
{"role":"assistant","tool_calls":[{"index":0,"id":"call_000000000000000000000100","type":"function","function":{"arguments":"1}"}}]}
{"role":"assistant","tool_calls":[{"index":1,"id":"mine","type":"function","function":{"name":"g","arguments":""}}]}
{"role":"assistant","tool_calls":[{"index":1,"id":"mine","type":"function","function":{"arguments":"{}"}}]}
{} tool_calls`,
		"mistral": `{"content":"","tool_calls":[{"id":"000000100","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"mine","type":"function","function":{"name":"g","arguments":"{}"}}]} tool_calls 15`,
		"same-index": `{"tool_calls":[{"index":0,"id":"call_000000000000000000000100","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}
{"tool_calls":[{"index":0,"id":"mine","type":"function","function":{"name":"g","arguments":"{}"}}]}
{} tool_calls`,
		"no-index": `{"tool_calls":[{"id":"call_000000000000000000000100","type":"function","function":{"name":"f","arguments":""}}]}
{"tool_calls":[{"function":{"arguments":"{\"a\":"}}]}
{"tool_calls":[{"function":{"arguments":"1}"}}]}
{"tool_calls":[{"id":"mine","type":"function","function":{"name":"g","arguments":""}}]}
{"tool_calls":[{"function":{"arguments":"{}"}}]}
{} tool_calls`,
		"nothing": `{"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}
{"tool_calls":[{"type":"function","function":{"name":"g","arguments":"{}"}}]}
{} tool_calls`,
	} {
		u := answertest.Start(t, answertest.Dialogue{Name: name, Answers: []answertest.Answer{a}}, habit(t, name))
		_, body, err := post(t, u, `{"model":"m","stream":true,"messages":[{"role":"user","content":"?"}]}`)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(body) {
			data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: {")
			if !ok {
				continue
			}
			var event struct {
				Choices []struct {
					Delta  json.RawMessage
					Finish string `json:"finish_reason"`
				}
				Usage struct {
					Total int `json:"total_tokens"`
				}
			}
			if err := json.Unmarshal([]byte("{"+data), &event); err != nil {
				t.Fatal(err)
			}
			text := strings.TrimSpace(string(event.Choices[0].Delta) + " " + event.Choices[0].Finish)
			if event.Usage.Total > 0 {
				text += fmt.Sprint(" ", event.Usage.Total)
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(strings.Split(want, "\n"), got[1:]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if !strings.HasSuffix(body, "\n\ndata: [DONE]\n\n") {
			t.Errorf("%s ends with %q", name, body[max(0, len(body)-30):])
		}
	}
	_, body, err := post(t, answertest.Start(t, answertest.Dialogue{Answers: []answertest.Answer{a}}, habit(t, "nothing")), `{"messages":[{"role":"user","content":"?"}]}`)
	if err != nil || !strings.Contains(body, `"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},`) {
		t.Errorf("%s %v", body, err)
	}
}

// Faulty answers: an error status, a broken connection, and one that hangs.
func TestFaults(t *testing.T) {
	const ask, asStream = `{"messages":[{"role":"user","content":"?"}]}`, `{"stream":true,"messages":[{"role":"user","content":"?"}]}`
	start := func(answer string) *answertest.Upstream {
		t.Helper()
		return answertest.Start(t, answertest.Dialogue{Answers: []answertest.Answer{parse(t, answer)}}, habit(t, "openai"))
	}
	for _, body := range []string{ask, asStream} {
		if status, answer, err := post(t, start(`status 429 {"error": {}}`), body); status != 429 || answer != `{"error": {}}` || err != nil {
			t.Errorf("%d %s %v", status, answer, err)
		}
		for _, h := range []string{"cut", "call f {}\ncut"} {
			if _, answer, err := post(t, start("text Half of it\n"+h), body); err == nil || !strings.Contains(answer, "Half") && body == asStream || strings.Contains(answer, `"finish_reason":"`) {
				t.Errorf("%s %v", answer, err)
			}
		}
		u := start("text Half of it\nwait")
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		stop := func() {
			<-u.Waiting
			leave()
		}
		if body == ask {
			go stop()
		}
		res, err := http.DefaultClient.Do(req)
		switch {
		case body == ask && err == nil:
			t.Error("there was an answer")
		case body == asStream && err != nil:
			t.Fatal(err)
		case body == asStream:
			r := bufio.NewReader(res.Body)
			for line := ""; !strings.Contains(line, "Half"); {
				if line, err = r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			stop()
			res.Body.Close()
		}
		<-u.Left
	}
}

// A recorder is a TB that records failures.
type recorder struct {
	errors  []string
	cleanup []func()
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, arguments ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, arguments...))
}
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }

// Requests that break the rules or are unexpected, and answers that are never requested, fail the
// test; such requests get OpenAI's error.
func TestWrongRequests(t *testing.T) {
	one := answertest.Dialogue{Name: "d", Answers: []answertest.Answer{parse(t, "text Yes.")}}
	for _, row := range []struct {
		requests []string
		status   int
		want     string
	}{
		{nil, 0, "d: 1 answers, asked for 0"},
		{[]string{`{"messages":[{"role":"tool","tool_call_id":"a","content":"x"}]}`}, 400, "d: request 1: messages[0]: tool message must be"},
		{[]string{`{"messages":[{"role":"user","content":"?"}]}`, `{"messages":[{"role":"user","content":"?"}]}`}, 400, "d: request 2: there are 1 answers"},
		{[]string{`{"messages":`}, 400, "d: request 1: unexpected end"},
	} {
		var r recorder
		u := answertest.Start(&r, one, habit(t, "openai"))
		for i, body := range row.requests {
			status, answer, err := post(t, u, body)
			if err != nil {
				t.Fatal(err)
			}
			if i == len(row.requests)-1 && (status != row.status || !strings.Contains(answer, `"type":"invalid_request_error"`)) {
				t.Errorf("%d %s", status, answer)
			}
			if !bytes.Equal(u.Requests()[i], []byte(body)) {
				t.Errorf("noted %s", u.Requests()[i])
			}
		}
		for _, f := range r.cleanup {
			f()
		}
		if len(r.errors) != 1 || !strings.HasPrefix(r.errors[0], row.want) {
			t.Errorf("%q, want %s", r.errors, row.want)
		}
	}
}

// An unknown line is an error.
func TestParseAnswer(t *testing.T) {
	for _, line := range []string{"txt a", "call f", "call", "usage 1", "usage a b", "status a b"} {
		if a, err := answertest.ParseAnswer("text a\n" + line + "\n"); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%s: %+v %v", line, a, err)
		}
	}
	for _, a := range goldentest.Load(t, "testdata") {
		if d := answertest.Read(t, a); d.Name == "mixed" && (len(d.Answers) != 3 || d.Answers[0].Text != "Ich schaue nach …\n我来查 😀." || string(d.Others["client"]) != "anything\n" || !json.Valid(d.Request)) {
			t.Errorf("%+v", d)
		}
	}
}
