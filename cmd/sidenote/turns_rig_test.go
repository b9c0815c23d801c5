package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"sidenote/proxy/answer/answertest"
)

// mixedAnswers are the answers of a model that searches, searches again and calls a tool of the app
// in one message, and answers.
var mixedAnswers = []string{
	`text Let me look.
call search_knowledge#kb_1 {"query":"parental leave"}`,
	`text And the weather.
call search_knowledge#kb_2 {"query":"flights and approval"}
call weather#app_1 {"city":"Bern"}
call read_knowledge#kb_3 {"refs":["nothing"]}`,
	`text 16 weeks, and it rains.`,
}

// A desk is an upstream whose model makes mixed turns, and replicas in front of it.
type desk struct {
	t      *testing.T
	up     *answertest.Upstream
	config string
}

// newDesk returns a desk whose replicas have additional configuration. Its upstream plays one
// dialogue for each list of answers.
func newDesk(t *testing.T, habit answertest.Habit, more string, answers ...[]string) *desk {
	t.Helper()
	d := answertest.Dialogue{Name: t.Name()}
	for _, text := range slices.Concat(answers...) {
		a, err := answertest.ParseAnswer(text)
		if err != nil {
			t.Fatal(err)
		}
		d.Answers = append(d.Answers, a)
	}
	up := answertest.Start(t, d, habit)
	config := fmt.Sprintf("upstream: %s/v1\nknowledge: {handbook: %q}\n%s", up.URL, handbook(t), more)
	if !strings.Contains(more, "policies:") {
		config += "policies: {default: {mode: tools}}\n"
	}
	return &desk{t, up, config}
}

// replica starts one more replica, and waits until it uses the Redis at a URL, unless that is "".
func (d *desk) replica(redis string) *process {
	d.t.Helper()
	config := d.config
	if redis != "" {
		config += fmt.Sprintf("redis: {url: %q, timeout: 500ms}\n", redis)
	}
	p := serve(d.t, "--config", written(d.t, "sidenote.yaml", config))
	if redis == "" {
		return p
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(metricsOf(d.t, p), `sidenote_breaker_open{name="redis/turns"} 0`); <-tick.C {
		if time.Now().After(end) {
			d.t.Fatalf("Redis is never asked: %s", metricsOf(d.t, p))
		}
	}
	return p
}

// metricsOf returns the metrics of a process.
func metricsOf(t *testing.T, p *process) string {
	t.Helper()
	resp, err := http.Get(p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A caller is an app that uses the official SDK and answers the calls that it gets.
type caller struct {
	t        *testing.T
	stream   bool
	key      string
	options  []option.RequestOption
	messages []openai.ChatCompletionMessageParamUnion
	status   string // the last Sidenote-Status, of a stream that at its end
	tokens   int64  // that the last answer says it took
}

func newCaller(t *testing.T, stream bool) *caller {
	return &caller{t: t, stream: stream, key: "sk-test", messages: []openai.ChatCompletionMessageParamUnion{
		openai.SystemMessage("You help staff."), openai.UserMessage("How long is parental leave, and does it rain in Bern?"),
	}}
}

// ask requests the next answer from a replica.
func (a *caller) ask(p *process) openai.ChatCompletionChoice {
	a.t.Helper()
	var got bytes.Buffer
	sdk := openai.NewClient(option.WithBaseURL(p.data+"/v1"), option.WithAPIKey(a.key), option.WithMaxRetries(0), option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if err == nil {
			a.status = resp.Header.Get("Sidenote-Status")
			resp.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(resp.Body, &got), resp.Body}
		}
		return resp, err
	}))
	params := openai.ChatCompletionNewParams{Model: "gpt-4o", Messages: a.messages, Tools: []openai.ChatCompletionToolUnionParam{
		openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "weather", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}}),
	}}
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	if !a.stream {
		answer, err := sdk.Chat.Completions.New(ctx, params, a.options...)
		if err != nil {
			a.t.Fatal(err)
		}
		a.tokens = answer.Usage.TotalTokens
		return answer.Choices[0]
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := sdk.Chat.Completions.NewStreaming(ctx, params, a.options...)
	defer stream.Close()
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			a.t.Fatalf("chunk does not fit: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		a.t.Fatal(err)
	}
	_, a.status, _ = strings.Cut(got.String(), "\n: sidenote-status: ")
	a.status, _, _ = strings.Cut(a.status, "\n")
	a.tokens = all.Usage.TotalTokens
	return all.Choices[0]
}

// turn requests an answer that must have exactly the app's call, and answers that call.
func (a *caller) turn(p *process) {
	a.t.Helper()
	m := a.ask(p).Message
	if len(m.ToolCalls) != 1 || m.ToolCalls[0].ID == "" || m.ToolCalls[0].Function.Name != "weather" || m.ToolCalls[0].Function.Arguments != `{"city":"Bern"}` {
		a.t.Fatalf("the client's calls are %+v", m.ToolCalls)
	}
	if m.Content != "Let me look.\n\nAnd the weather." {
		a.t.Errorf("the client reads %q", m.Content)
	}
	a.messages = append(a.messages, m.ToParam(), openai.ToolMessage("It rains.", m.ToolCalls[0].ID))
}

// end requests an answer that must be the last.
func (a *caller) end(p *process) {
	a.t.Helper()
	if c := a.ask(p); c.Message.Content != "16 weeks, and it rains." || len(c.Message.ToolCalls) > 0 || c.FinishReason != "stop" {
		a.t.Errorf("ends with %+v", c)
	}
}

// A line is a message as a test compares it: its role, its text, the names of its calls, and the
// name of the call that it answers, each by its id.
type line struct{ Role, Text, Calls, Answers string }

// conversation reads the messages of a request after the user's. Ids are replaced by the names of
// the called tools; results of Sidenote's tools are as in texts.
func (d *desk) conversation(n int) (lines []line) {
	d.t.Helper()
	var request struct {
		Messages []struct {
			Role      string
			Content   any
			ID        string `json:"tool_call_id"`
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(d.up.Requests()[n], &request); err != nil {
		d.t.Fatal(err)
	}
	names := map[string]string{}
	for _, m := range request.Messages[2:] {
		l := line{Role: m.Role, Answers: names[m.ID]}
		switch c := m.Content.(type) {
		case string:
			l.Text = c
		case []any:
			for _, part := range c {
				l.Text += part.(map[string]any)["text"].(string)
			}
		}
		var calls []string
		for _, c := range m.ToolCalls {
			name := c.Function.Name + c.Function.Arguments
			names[c.ID] = name
			calls = append(calls, name)
		}
		l.Calls = strings.Join(calls, " ")
		lines = append(lines, l)
	}
	return lines
}

const (
	firstSearch  = `search_knowledge{"query":"parental leave"}`
	secondSearch = `search_knowledge{"query":"flights and approval"}`
	badRead      = `read_knowledge{"refs":["nothing"]}`
	weatherCall  = `weather{"city":"Bern"}`
)

// whole returns the last request of a dialogue if what the client did not see was restored.
func (d *desk) whole(n int) {
	d.t.Helper()
	got := d.conversation(n)
	if len(got) != 6 || !strings.Contains(got[1].Text, "leave.md") || !strings.Contains(got[3].Text, "travel.md") || !strings.Contains(got[4].Text, "error") {
		d.t.Fatalf("request %d has %+v", n+1, got)
	}
	got[1].Text, got[3].Text, got[4].Text = "", "", ""
	if diff := cmp.Diff([]line{
		{Role: "assistant", Calls: firstSearch},
		{Role: "tool", Answers: firstSearch},
		{Role: "assistant", Text: "Let me look.\n\nAnd the weather.", Calls: secondSearch + " " + weatherCall + " " + badRead},
		{Role: "tool", Answers: secondSearch},
		{Role: "tool", Answers: badRead},
		{Role: "tool", Text: "It rains.", Answers: weatherCall},
	}, got); diff != "" {
		d.t.Error(diff)
	}
}

// without returns it if that was left out.
func (d *desk) without(n int) {
	d.t.Helper()
	if diff := cmp.Diff([]line{
		{Role: "assistant", Text: "Let me look.\n\nAnd the weather.", Calls: weatherCall},
		{Role: "tool", Text: "It rains.", Answers: weatherCall},
	}, d.conversation(n)); diff != "" {
		d.t.Error(diff)
	}
}

// bothWays runs a test with an app that streams and one that does not.
func bothWays(t *testing.T, test func(t *testing.T, a *caller)) {
	for name, stream := range map[string]bool{"whole": false, "stream": true} {
		t.Run(name, func(t *testing.T) { test(t, newCaller(t, stream)) })
	}
}

// someHabits are ways in which servers write calls; the client must send them back byte for byte.
func someHabits() []answertest.Habit {
	all := answertest.Habits()
	return slices.DeleteFunc(all, func(h answertest.Habit) bool {
		return !slices.Contains([]string{"openai", "ollama-0.5", "mistral", "nothing"}, h.Name)
	})
}
