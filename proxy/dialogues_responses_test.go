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
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite/goldentest"
)

// notInResponses are dialogues about what Responses requests do not have.
var notInResponses = []string{"functions", "n-above-1", "logprobs", "tools-twice", "tool-choice-twice", "usage-asked", "usage-not-asked"}

// asResponses turns a request for chat completions into one of the Responses API.
func asResponses(t *testing.T, request []byte) []byte {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(request, &all); err != nil {
		t.Fatal(err)
	}
	var input []any
	for _, m := range all["messages"].([]any) {
		m := m.(map[string]any)
		calls, _ := m["tool_calls"].([]any)
		switch {
		case m["role"] == "tool":
			input = append(input, map[string]any{"type": "function_call_output", "call_id": m["tool_call_id"], "output": m["content"]})
			continue
		case m["content"] != nil:
			input = append(input, map[string]any{"role": m["role"], "content": m["content"]})
		}
		for _, c := range calls {
			c := c.(map[string]any)
			f := c["function"].(map[string]any)
			input = append(input, map[string]any{"type": "function_call", "call_id": c["id"], "name": f["name"], "arguments": f["arguments"]})
		}
	}
	delete(all, "messages")
	all["input"] = input
	if list, ok := all["tools"].([]any); ok {
		for i := range list {
			list[i] = flat(list[i])
		}
	}
	if choice, ok := all["tool_choice"].(map[string]any); ok {
		all["tool_choice"] = flat(choice)
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if n, ok := all[name]; ok {
			delete(all, name)
			all["max_output_tokens"] = n
		}
	}
	if format, ok := all["response_format"]; ok {
		delete(all, "response_format")
		all["text"] = map[string]any{"format": format}
	}
	if effort, ok := all["reasoning_effort"]; ok {
		delete(all, "reasoning_effort")
		all["reasoning"] = map[string]any{"effort": effort}
	}
	delete(all, "stream_options")
	delete(all, "stop")
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// flat moves what is in the object "function" of a tool beside its type.
func flat(tool any) any {
	o, ok := tool.(map[string]any)
	if f, nested := o["function"].(map[string]any); ok && nested {
		f["type"] = "function"
		return f
	}
	return tool
}

// playResponses plays a dialogue whose request is of the Responses API.
func playResponses(t *testing.T, d answertest.Dialogue, h answertest.ItemHabit, stream bool) played {
	t.Helper()
	return playResponsesWith(t, d, h, stream, nil, func(base string) proxy.Config { return toolsOf(t, d, base) })
}

// playResponsesWith plays a dialogue with the configuration for an upstream and a retriever.
func playResponsesWith(t *testing.T, d answertest.Dialogue, h answertest.ItemHabit, stream bool, r retrieval.Retriever, config func(base string) proxy.Config) played {
	t.Helper()
	u := answertest.StartResponses(t, d, h)
	g := start(t, config(u.URL), r)
	body := bytes.TrimSpace(d.Request)
	if stream {
		body = append([]byte(`{"stream":true,`), body[1:]...)
	}
	resp, err := http.Post("http://"+g.addr+"/v1/responses", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	p := played{status: resp.StatusCode, header: resp.Header, body: string(all), err: err, sameIndex: h.SameIndex}
	for _, request := range u.Requests() {
		p.upstream = append(p.upstream, strings.Replace(string(request), `"stream":true,`, "", 1))
	}
	return p
}

// toolsOf returns the configuration of a dialogue.
func toolsOf(t *testing.T, d answertest.Dialogue, base string) proxy.Config {
	return withTools(t, base, func(p *tenant.Policy) {
		if text := d.Others["policy"]; text != nil {
			if err := json.Unmarshal(text, &p.Tools); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// messageOfResponse reads an answer of the Responses API as applications do, and checks its events.
func messageOfResponse(p played) (m message, err error) {
	var all responses.Response
	if strings.HasPrefix(p.header.Get("Content-Type"), "text/event-stream") {
		if all, err = joinedResponse(p); err != nil {
			return m, err
		}
	} else if err := json.Unmarshal([]byte(p.body), &all); err != nil {
		return m, err
	}
	if all.Object != "response" {
		return m, errors.New("no response")
	}
	m = message{Finish: "stop", Prompt: all.Usage.InputTokens, Tokens: all.Usage.OutputTokens}
	var texts []string
	for _, item := range all.Output {
		text := ""
		for _, part := range item.Content {
			text += part.Text
			m.Refusal += part.Refusal
		}
		if item.Type == "message" && text != "" {
			texts = append(texts, text)
		}
		if item.Type == "function_call" {
			m.Calls = append(m.Calls, item.Name+item.Arguments.OfString)
			m.Finish = "tool_calls"
		}
	}
	m.Text = strings.Join(texts, "\n\n")
	switch all.IncompleteDetails.Reason {
	case "max_output_tokens":
		m.Finish = "length"
	case "content_filter":
		m.Finish = "content_filter"
	}
	return m, nil
}

// joinedResponse returns the response that a stream ends with. The events before it must tell the
// same: numbers without gaps, one response, and the items that it has.
func joinedResponse(p played) (all responses.Response, err error) {
	stream := ssestream.NewStream[responses.ResponseStreamEventUnion](ssestream.NewDecoder(&http.Response{Header: p.header, Body: io.NopCloser(strings.NewReader(p.body))}), nil)
	numbered := strings.Contains(p.body, "sequence_number")
	var items []string
	texts, created, id, next := map[int64]string{}, 0, "", int64(0)
	for stream.Next() {
		e := stream.Current()
		if numbered && e.SequenceNumber != next {
			return all, fmt.Errorf("event %d has the number %d: %s", next, e.SequenceNumber, e.RawJSON())
		}
		next++
		switch e.Type {
		case "response.created":
			created++
			id = e.Response.ID
		case "response.output_item.added":
			if e.OutputIndex != int64(len(items)) && !p.sameIndex {
				return all, fmt.Errorf("item %d has the index %d", len(items), e.OutputIndex)
			}
		case "response.output_text.delta":
			texts[int64(len(items))] += e.Delta
		case "response.output_item.done":
			var item responses.ResponseOutputItemUnion = e.Item
			if item.Type == "message" && len(item.Content) == 1 && item.Content[0].Type == "output_text" && texts[int64(len(items))] != item.Content[0].Text && texts[int64(len(items))] != "" {
				return all, fmt.Errorf("%q was streamed, %q at the end", texts[int64(len(items))], item.Content[0].Text)
			}
			items = append(items, item.RawJSON())
		case "response.completed", "response.incomplete", "response.failed":
			if all.ID != "" {
				return all, errors.New("two ends")
			}
			all = e.Response
		case "error":
			return all, fmt.Errorf("error: %s", e.Message)
		}
	}
	if stream.Err() != nil {
		return all, stream.Err()
	}
	if all.ID == "" {
		return all, errors.New("no end")
	}
	if created != 1 || id != all.ID {
		return all, fmt.Errorf("%d responses were created, %s began and %s ended", created, id, all.ID)
	}
	if len(all.Output) == 0 && len(items) > 0 { // a habit of the server
		var list []json.RawMessage
		for _, item := range items {
			list = append(list, json.RawMessage(item))
		}
		output, err := json.Marshal(list)
		if err != nil {
			return all, err
		}
		return all, json.Unmarshal(output, &all.Output)
	}
	for i, item := range all.Output {
		if i >= len(items) || items[i] != item.RawJSON() {
			return all, fmt.Errorf("item %d of %d was not streamed like this: %s", i, len(items), item.RawJSON())
		}
	}
	if len(items) != len(all.Output) {
		return all, fmt.Errorf("%d items were streamed, %d at the end", len(items), len(all.Output))
	}
	return all, nil
}

// A result is a tool call that was answered, and its result.
type result struct{ Call, Content string }

// resultsOf returns the calls and results in the last request of a dialogue.
func resultsOf(t *testing.T, p played) (list []result) {
	t.Helper()
	var request struct {
		Messages []struct {
			Content   any
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
			ToolCallID string `json:"tool_call_id"`
		}
		Input []struct {
			Type, Name, Arguments string
			Output                any
			CallID                string `json:"call_id"`
		}
	}
	if err := json.Unmarshal([]byte(p.upstream[len(p.upstream)-1]), &request); err != nil {
		t.Fatal(err)
	}
	calls := map[string]string{}
	for _, m := range request.Messages {
		for _, c := range m.ToolCalls {
			calls[c.ID] = c.Function.Name + c.Function.Arguments
		}
		if m.ToolCallID != "" {
			list = append(list, result{calls[m.ToolCallID], fmt.Sprint(m.Content)})
		}
	}
	for _, i := range request.Input {
		if i.Type == "function_call" {
			calls[i.CallID] = i.Name + i.Arguments
		}
		if i.Type == "function_call_output" {
			list = append(list, result{calls[i.CallID], fmt.Sprint(i.Output)})
		}
	}
	return list
}

// compareAPIs compares the answer over the Responses API with that over chat completions. It returns
// false if both are cut.
func compareAPIs(t *testing.T, chat, p played, about string) bool {
	t.Helper()
	if chat.err != nil && p.err != nil {
		return false
	}
	want, wantErr := messageOf(chat)
	got, err := messageOfResponse(p)
	if p.status != chat.status || (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: status %d, %v; over chat completions %d, %v\n%s", about, p.status, err, chat.status, wantErr, p.body)
	}
	if diff := cmp.Diff(want, got); wantErr == nil && diff != "" {
		t.Errorf("%s: %s\n%s", about, diff, p.body)
	}
	return true
}

// Over the Responses API each dialogue ends as it does over chat completions, with the same calls
// and results on the way: whole, and as a stream by every habit of servers.
func TestDialoguesOverResponses(t *testing.T) {
	for _, a := range goldentest.Load(t, "testdata/dialogues") {
		d := answertest.Read(t, a)
		if slices.Contains(notInResponses, d.Name) {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			over := d
			over.Request = asResponses(t, d.Request)
			if strings.HasPrefix(d.Name, "xml-") {
				over.Answers = over.Answers[:1]
				p := playResponses(t, over, answertest.ItemHabits()[0], false)
				if got := p.header.Get(report.HeaderStatus); !strings.Contains(got, "unoffered=api") {
					t.Errorf("%d %s", p.status, got)
				}
				return
			}
			compare := func(chat, p played, about string) {
				t.Helper()
				if !compareAPIs(t, chat, p, about) {
					return
				}
				if strings.Contains(chat.body, `"sidenote":{`) != strings.Contains(p.body, `"sidenote":{`) {
					t.Errorf("%s: the trace: %s", about, p.body)
				}
				if diff := cmp.Diff(resultsOf(t, chat), resultsOf(t, p)); diff != "" {
					t.Errorf("%s: %s", about, diff)
				}
			}
			compare(playDialogue(t, d, plain(), false), playResponses(t, over, answertest.ItemHabits()[0], false), "whole")
			if strings.Contains(string(d.Request), `"stream"`) {
				return
			}
			chat := playDialogue(t, d, plain(), true)
			for _, h := range someOf(answertest.ItemHabits(), d.Name) {
				compare(chat, playResponses(t, over, h, true), h.Name)
			}
		})
	}
}
