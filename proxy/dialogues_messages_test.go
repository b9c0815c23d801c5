package proxy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/rewrite/goldentest"
)

// notInMessages are dialogues about what Messages requests and answers do not have.
var notInMessages = []string{
	"functions", "n-above-1", "logprobs", "tools-twice", "tool-choice-twice", "usage-asked", "usage-not-asked",
	"parallel-tool-calls-alone", "refusal", "tool-choice-allowed", "tools-no-list",
}

// asBlocks turns a request for chat completions into one of the Messages API.
func asBlocks(t *testing.T, request []byte) []byte {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(request, &all); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	var messages []any
	for _, m := range all["messages"].([]any) {
		m := m.(object)
		calls, _ := m["tool_calls"].([]any)
		switch {
		case m["role"] == "system":
			all["system"] = m["content"]
		case m["role"] == "tool":
			result := object{"type": "tool_result", "tool_use_id": m["tool_call_id"], "content": m["content"]}
			if last, ok := messages[len(messages)-1].(object); ok && last["results"] != nil {
				last["content"] = append(last["content"].([]any), result)
			} else {
				messages = append(messages, object{"role": "user", "content": []any{result}, "results": true})
			}
		case calls != nil:
			var content []any
			if text, _ := m["content"].(string); text != "" {
				content = append(content, object{"type": "text", "text": text})
			}
			for _, c := range calls {
				c := c.(object)
				f := c["function"].(object)
				content = append(content, object{"type": "tool_use", "id": c["id"], "name": f["name"], "input": json.RawMessage(f["arguments"].(string))})
			}
			messages = append(messages, object{"role": m["role"], "content": content})
		default:
			messages = append(messages, m)
		}
	}
	for _, m := range messages {
		delete(m.(object), "results")
	}
	all["messages"] = messages
	if list, ok := all["tools"].([]any); ok {
		for i := range list {
			if f, ok := list[i].(object)["function"].(object); ok {
				list[i] = object{"name": f["name"], "input_schema": object{"type": "object"}}
			}
		}
	}
	switch choice := all["tool_choice"].(type) {
	case string:
		all["tool_choice"] = object{"type": map[string]string{"required": "any"}[choice] + map[string]string{"auto": "auto", "none": "none"}[choice]}
	case object:
		if f, ok := choice["function"].(object); ok {
			all["tool_choice"] = object{"type": "tool", "name": f["name"]}
		}
	}
	if all["max_tokens"] == nil {
		all["max_tokens"] = 1024
	}
	if n := all["max_completion_tokens"]; n != nil {
		all["max_tokens"] = n
	}
	if format, ok := all["response_format"].(object); ok && format["type"] != "text" {
		all["output_config"] = object{"format": object{"type": "json_schema", "schema": object{"type": "object"}}}
	}
	for _, name := range []string{"max_completion_tokens", "response_format", "parallel_tool_calls", "reasoning_effort", "stream_options", "stop"} {
		delete(all, name)
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// playBlocks plays a dialogue whose request is of the Messages API.
func playBlocks(t *testing.T, d answertest.Dialogue, h answertest.BlockHabit, stream bool) played {
	t.Helper()
	return playBlocksWith(t, d, h, stream, nil, func(base string) proxy.Config { return toolsOf(t, d, base) })
}

// playBlocksWith plays a dialogue with the configuration for an upstream and a retriever.
func playBlocksWith(t *testing.T, d answertest.Dialogue, h answertest.BlockHabit, stream bool, r retrieval.Retriever, config func(base string) proxy.Config) played {
	t.Helper()
	u := answertest.StartMessages(t, d, h)
	g := start(t, config(u.URL), r)
	body := bytes.TrimSpace(d.Request)
	if stream {
		body = append([]byte(`{"stream":true,`), body[1:]...)
	}
	resp, err := http.Post("http://"+g.addr+"/v1/messages", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	p := played{status: resp.StatusCode, header: resp.Header, body: string(all), err: err}
	for _, request := range u.Requests() {
		p.upstream = append(p.upstream, strings.Replace(string(request), `"stream":true,`, "", 1))
	}
	return p
}

// A blocksAnswer is a whole answer of the Messages API.
type blocksAnswer struct {
	ID, Type, Role string
	Content        []struct {
		Type, Text, Thinking, Name, ID string
		Input                          json.RawMessage
	}
	Stop  string `json:"stop_reason"`
	Usage struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	}
	raw []byte
}

// readBlocksAnswer reads an answer of the Messages API as applications do, and checks its events.
func readBlocksAnswer(p played) (a blocksAnswer, err error) {
	a.raw = []byte(p.body)
	if strings.HasPrefix(p.header.Get("Content-Type"), "text/event-stream") {
		joined, err := answertest.JoinMessage(p.body)
		switch {
		case err != nil:
			return a, err
		case len(joined.Errors) > 0:
			return a, fmt.Errorf("error: %s", joined.Errors)
		case joined.Starts != 1 || joined.Ends != 1:
			return a, fmt.Errorf("%d starts, %d ends", joined.Starts, joined.Ends)
		}
		if a.raw, err = json.Marshal(joined.Message); err != nil {
			return a, err
		}
	}
	if err := json.Unmarshal(a.raw, &a); err != nil {
		return a, err
	}
	if a.Type != "message" || a.Role != "assistant" {
		return a, errors.New("no message")
	}
	return a, nil
}

// messageOfBlocks returns what readBlocksAnswer reads as the message of a chat completion.
func messageOfBlocks(p played) (m message, err error) {
	a, err := readBlocksAnswer(p)
	if err != nil {
		return m, err
	}
	m = message{Prompt: a.Usage.Input, Tokens: a.Usage.Output}
	var texts []string
	for _, b := range a.Content {
		switch b.Type {
		case "text":
			texts = append(texts, b.Text)
		case "tool_use":
			m.Calls = append(m.Calls, b.Name+string(compactJSON(b.Input)))
		}
	}
	m.Text = strings.Join(texts, "\n\n")
	m.Finish = map[string]string{"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}[a.Stop]
	return m, nil
}

func compactJSON(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// blockResults returns the calls and results in the last request of a dialogue over Messages.
func blockResults(t *testing.T, p played) (list []result) {
	t.Helper()
	var request struct {
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal([]byte(p.upstream[len(p.upstream)-1]), &request); err != nil {
		t.Fatal(err)
	}
	calls := map[string]string{}
	for _, m := range request.Messages {
		var blocks []struct {
			Type, ID, Name string
			Input          json.RawMessage
			Use            string `json:"tool_use_id"`
			Content        any
		}
		if m.Content[0] != '[' {
			continue
		}
		if err := json.Unmarshal(m.Content, &blocks); err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				calls[b.ID] = b.Name + string(compactJSON(b.Input))
			case "tool_result":
				list = append(list, result{calls[b.Use], fmt.Sprint(b.Content)})
			}
		}
	}
	return list
}

// objectInputs reports whether the arguments of all calls are objects, as the Messages API requires.
func objectInputs(d answertest.Dialogue) bool {
	for _, a := range d.Answers {
		for _, c := range a.Calls {
			var object map[string]any
			if json.Unmarshal([]byte(c.Arguments), &object) != nil {
				return false
			}
		}
	}
	return true
}

// Over the Messages API each dialogue ends as it does over chat completions, with the same calls and
// results on the way: whole, and as a stream by every habit of servers. Each request sent keeps
// Anthropic's rules.
func TestDialoguesOverMessages(t *testing.T) {
	for _, a := range goldentest.Load(t, "testdata/dialogues") {
		d := answertest.Read(t, a)
		if slices.Contains(notInMessages, d.Name) || !objectInputs(d) {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			over := d
			over.Request = asBlocks(t, d.Request)
			if strings.HasPrefix(d.Name, "xml-") {
				over.Answers = over.Answers[:1]
				p := playBlocks(t, over, answertest.BlockHabits()[0], false)
				if got := p.header.Get(report.HeaderStatus); !strings.Contains(got, "unoffered=api") {
					t.Errorf("%d %s", p.status, got)
				}
				return
			}
			compare := func(chat, p played, about string) {
				t.Helper()
				if chat.err != nil && p.err != nil {
					return
				}
				want, wantErr := messageOf(chat)
				got, err := messageOfBlocks(p)
				if p.status != chat.status || (err == nil) != (wantErr == nil) {
					t.Fatalf("%s: status %d, %v; over chat completions %d, %v\n%s", about, p.status, err, chat.status, wantErr, p.body)
				}
				if diff := cmp.Diff(want, got); wantErr == nil && diff != "" {
					t.Errorf("%s: %s\n%s", about, diff, p.body)
				}
				if strings.Contains(chat.body, `"sidenote":{`) != strings.Contains(p.body, `"sidenote":{`) {
					t.Errorf("%s: the trace: %s", about, p.body)
				}
				given := resultsOf(t, chat)
				for i := range given { // inputs are written as the server's encoder does
					name, arguments, _ := strings.Cut(given[i].Call, "{")
					given[i].Call = name + string(compactJSON([]byte("{"+arguments)))
				}
				if diff := cmp.Diff(given, blockResults(t, p)); diff != "" {
					t.Errorf("%s: %s", about, diff)
				}
			}
			compare(playDialogue(t, d, plain(), false), playBlocks(t, over, answertest.BlockHabits()[0], false), "whole")
			if strings.Contains(string(d.Request), `"stream"`) {
				return
			}
			chat := playDialogue(t, d, plain(), true)
			for _, h := range someOf(answertest.BlockHabits(), d.Name) {
				compare(chat, playBlocks(t, over, h, true), h.Name)
			}
		})
	}
}
