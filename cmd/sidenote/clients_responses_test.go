package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/rewrite/tags"
	"sidenote/rewrite/toolcalls/toolcallstest"
)

// A responsesClient is a client of the Responses API that people use, and what it does there.
type responsesClient struct {
	name       string
	ways       []string // whole, stream
	told       told
	rounds     int  // requests for an answer
	showsCited bool // it gives its user the annotations
	stateless  bool // it forbids the upstream to keep what it sends
}

// What the model of newResponder says. It calls a tool of the programs, or the shell that Codex offers.
var (
	bothWaysOfAsking = []string{"whole", "stream"}
	rainyAnswer      = told{
		Text: "Sixteen weeks [1], and it rains.", Calls: []toldCall{{"weather", `{"city":"Bern"}`}}, Tokens: 252, Cited: []string{"Leave policy"},
	}
	parsedAnswer = told{Text: "16 weeks", Calls: []toldCall{}, Tokens: 126, Cited: []string{}}
	shellAnswer  = told{Text: rainyAnswer.Text, Calls: []toldCall{{"exec_command", shellCall}}, Tokens: 252}
)

const shellCall = `{"cmd": "echo It rains in Bern."}`

// responsesClients are the clients that testdata/clients has programs for, by language.
var responsesClients = map[string][]responsesClient{
	"python": {
		{"openai", bothWaysOfAsking, rainyAnswer, 2, true, false},
		{"parsed", bothWaysOfAsking, parsedAnswer, 1, true, false},
		{"agents", bothWaysOfAsking, rainyAnswer, 2, true, false},
		{"pydantic-ai", bothWaysOfAsking, rainyAnswer, 2, true, false},
		{"codex", []string{"stream"}, shellAnswer, 2, false, true},
	},
	"javascript": {
		{"openai", bothWaysOfAsking, rainyAnswer, 2, true, false},
		{"parsed", bothWaysOfAsking, parsedAnswer, 1, true, false},
		{"agents", bothWaysOfAsking, rainyAnswer, 2, true, false},
		{"ai", bothWaysOfAsking, rainyAnswer, 2, true, false},
	},
}

// Clients of the Responses API get right answers and calls of their tools. Each of their requests
// reaches the upstream with the sources, at the place that the policy says, and otherwise as they
// send it where there is no Sidenote.
func TestClientsResponses(t *testing.T) {
	commands := otherClients(t, "responses")
	for language, clients := range responsesClients {
		for _, c := range clients {
			for _, way := range c.ways {
				t.Run(language+"/"+c.name+"/"+way, func(t *testing.T) {
					c.compare(t, func(url string) told {
						t.Helper()
						all := runClient(t, commands[language], url+"/v1", way == "stream", c.name)
						if len(all) != 1 {
							t.Fatalf("%d answers", len(all))
						}
						return all[0]
					})
				})
			}
		}
	}
}

// compare runs a client without Sidenote and with it, under two policies.
func (c responsesClient) compare(t *testing.T, run func(url string) told) {
	t.Helper()
	direct := newResponder(t, false)
	want := c.told
	if want.Cited = nil; c.showsCited {
		want.Cited = []string{}
	}
	if diff := cmp.Diff(want, run(direct.URL)); diff != "" {
		t.Fatal("without Sidenote:", diff)
	}
	if c.showsCited {
		want.Cited = c.told.Cited
	}
	for policy, place := range map[string]string{"annotations: on": "system", "annotations: on, history: input, placement: last_user": "user"} {
		up := newResponder(t, false)
		file := written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {handbook: %q}\npolicies: {default: {%s}}\n", up.URL, handbook(t), policy))
		if diff := cmp.Diff(want, run(serve(t, "--config", file).data)); diff != "" {
			t.Errorf("%s: %s", policy, diff)
		}
		if len(up.requests) != c.rounds || len(direct.requests) != c.rounds {
			t.Fatalf("%s: %d requests, without Sidenote %d, want %d", policy, len(up.requests), len(direct.requests), c.rounds)
		}
		for i := range up.requests {
			sent, got := withoutChance(direct.requests[i].body), withoutChance(up.requests[i].body)
			block := insertedInto(t, sent, got)
			if back := bytes.Replace(got, block, nil, 1); !bytes.Equal(back, sent) {
				t.Errorf("%s: outside the insertion: %s", policy, cmp.Diff(string(sent), string(back)))
			}
			if !bytes.Contains(block, []byte("16 weeks")) {
				t.Errorf("%s: inserted %s", policy, block)
			}
			want := place
			if place == "system" && !c.stateless {
				want = "instructions"
			}
			if at := placesOf(t, up.requests[i].body, tags.SourcesOpen); !slices.Equal(at, []string{want}) {
				t.Errorf("%s: the sources are in %q, want %s", policy, at, want)
			}
		}
	}
}

// Clients of the Responses API get right answers, and calls of their own tools alone, from a model
// that searches: first by itself, then beside a call of theirs. The upstream gets each call with its
// result.
func TestClientsResponsesTools(t *testing.T) {
	commands := otherClients(t, "responses")
	for language, clients := range responsesClients {
		for _, c := range clients {
			for _, way := range c.ways {
				t.Run(language+"/"+c.name+"/"+way, func(t *testing.T) {
					up := newResponder(t, true)
					file := written(t, "sidenote.yaml", fmt.Sprintf("upstream: %s/v1\nknowledge: {handbook: %q}\npolicies: {default: {mode: tools}}\n", up.URL, handbook(t)))
					want := c.told
					want.Tokens += 126 // of one round more
					want.Cited = nil
					if c.showsCited {
						want.Cited = []string{}
					}
					all := runClient(t, commands[language], serve(t, "--config", file).data+"/v1", way == "stream", c.name)
					if len(all) != 1 {
						t.Fatalf("%d answers", len(all))
					}
					if diff := cmp.Diff(want, all[0]); diff != "" {
						t.Error(diff)
					}
					last := up.requests[len(up.requests)-1].body
					if n := bytes.Count(last, []byte(`"hits`)) + bytes.Count(last, []byte(`\"hits`)); len(up.requests) != c.rounds+1 || n < c.rounds {
						t.Errorf("%d requests, %d results of our tools in the last: %s", len(up.requests), n, last)
					}
				})
			}
		}
	}
}

// chance matches what differs each time that a client runs: ids, what Codex tells of itself in any
// order, and how its shell did.
var chance = regexp.MustCompile(`[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|"client_metadata":\{("[^"]*":"(\\.|[^"\\])*",?)*\}|Chunk ID: [0-9a-f]+|Wall time: [\d.]+`)

func withoutChance(body []byte) []byte { return chance.ReplaceAll(body, []byte("…")) }

// placesOf returns where a text stands in a request: instructions, or the roles of messages.
func placesOf(t *testing.T, body []byte, text string) (places []string) {
	t.Helper()
	var r struct {
		Instructions string
		Input        json.RawMessage
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(r.Instructions, text) {
		places = append(places, "instructions")
	}
	if r.Input[0] == '"' {
		r.Input = fmt.Appendf(nil, `[{"role":"user","content":%s}]`, r.Input)
	}
	var items []struct {
		Role    string
		Content any
	}
	if err := json.Unmarshal(r.Input, &items); err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if !strings.Contains(fmt.Sprint(item.Content), text) {
			continue
		}
		if item.Role == "developer" {
			item.Role = "system"
		}
		places = append(places, item.Role)
	}
	return places
}

// newResponder starts a model behind the Responses API. It reasons and calls the tool weather, or the
// shell of Codex, if that is offered, and answers when it has the output. If it searches, it first
// calls search_knowledge by itself, and then again beside that tool. Requests in which a call and its
// result do not go together are refused.
func newResponder(t *testing.T, searches bool) *recorder {
	t.Helper()
	u, said := &recorder{}, map[string]item{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var req struct {
			Stream bool
			Text   struct{ Format struct{ Type string } }
			Input  json.RawMessage
		}
		if err != nil || json.Unmarshal(body, &req) != nil || r.RequestURI != "/v1/responses" {
			w.WriteHeader(http.StatusNotFound) // also where Sidenote asks for the models
			fmt.Fprint(w, `{"error":{"message":"Only POST /v1/responses is here.","type":"invalid_request_error","param":null,"code":null}}`)
			return
		}
		u.mu.Lock()
		u.requests = append(u.requests, recorded{r.Method, r.RequestURI, r.Header.Clone(), body})
		n := len(u.requests)
		u.mu.Unlock()
		offered := func(tool string) bool {
			return !hasOutput(req.Input, "It rains in Bern.") && bytes.Contains(body, []byte(`"name":"`+tool+`"`))
		}
		if err := checkInput(req.Input, said); err != nil {
			t.Errorf("request %d: %v: %s", n, err, body)
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error","param":"input","code":null}}`, err)
			return
		}
		call := func(name, arguments string) []item {
			called := func(at int, name, arguments string) item {
				return item{
					"id": fmt.Sprintf("fc_%d_%d", n, at), "type": "function_call", "status": "completed",
					"call_id": fmt.Sprintf("call_%d_%d", n, at), "name": name, "arguments": arguments,
				}
			}
			list := []item{{"id": fmt.Sprint("rs_", n), "type": "reasoning", "summary": []any{}, "encrypted_content": "gAAAAB+/=="}}
			if searches && bytes.Contains(body, []byte(`"name":"search_knowledge"`)) {
				list = append(list, called(1, "search_knowledge", fmt.Sprintf(`{"query":"parental leave, part %d"}`, n)))
				if n == 1 {
					return list
				}
			}
			if name != "" {
				list = append(list, called(2, name, arguments))
			}
			return list
		}
		output := []item{textItem(rainyAnswer.Text)}
		switch {
		case searches && n == 1:
			output = call("", "")
		case req.Text.Format.Type == "json_schema":
			output = []item{textItem(`{"weeks":16}`)}
		case offered("weather"):
			output = call("weather", rainyAnswer.Calls[0].Arguments)
		case offered("exec_command"):
			output = call("exec_command", shellCall)
		}
		u.mu.Lock()
		for _, i := range output {
			said[i["id"].(string)] = i
		}
		u.mu.Unlock()
		writeResponse(w, fmt.Sprintf("resp_%d", n), req.Stream, output)
	}))
	t.Cleanup(u.Close)
	return u
}

// checkInput checks that calls and results in an input go together. References are to what the model
// said.
func checkInput(input []byte, said map[string]item) error {
	var items []json.RawMessage
	if json.Unmarshal(input, &items) != nil { // a string
		return nil
	}
	for i, raw := range items {
		var reference struct{ Type, ID string }
		if json.Unmarshal(raw, &reference) == nil && reference.Type == "item_reference" {
			whole, err := json.Marshal(said[reference.ID])
			if err != nil {
				return err
			}
			items[i] = whole
		}
	}
	return toolcallstest.CheckItems(items)
}

// hasOutput reports whether the output of a tool in an input contains a text.
func hasOutput(input []byte, text string) bool {
	type output struct {
		Type   string
		Output json.RawMessage
	}
	var items []output
	return json.Unmarshal(input, &items) == nil && slices.ContainsFunc(items, func(i output) bool {
		return i.Type == "function_call_output" && bytes.Contains(i.Output, []byte(text))
	})
}

// An item is one of the output of a response.
type item map[string]any

func textItem(text string) item {
	part := item{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
	return item{"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": []any{part}}
}

// writeResponse writes a response, whole or with all the events that OpenAI sends.
func writeResponse(w http.ResponseWriter, id string, stream bool, output []item) {
	response := func(status string, output []item, usage any) item {
		return item{
			"id": id, "object": "response", "created_at": 1, "status": status, "error": nil, "incomplete_details": nil, "instructions": nil, "metadata": item{},
			"model": "gpt-5", "output": output, "parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "tools": []any{}, "top_p": 1, "usage": usage,
		}
	}
	completed := response("completed", output, item{
		"input_tokens": 120, "input_tokens_details": item{"cached_tokens": 20}, "output_tokens": 6, "output_tokens_details": item{"reasoning_tokens": 2}, "total_tokens": 126,
	})
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(completed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	number := 0
	send := func(name string, members item) {
		members["type"], members["sequence_number"] = "response."+name, number
		data, _ := json.Marshal(members)
		fmt.Fprintf(w, "event: response.%s\ndata: %s\n\n", name, data)
		w.(http.Flusher).Flush()
		number++
	}
	send("created", item{"response": response("in_progress", []item{}, nil)})
	send("in_progress", item{"response": response("in_progress", []item{}, nil)})
	for i, done := range output {
		begun := maps.Clone(done)
		at := func(members item) item {
			members["output_index"], members["item_id"] = i, done["id"]
			return members
		}
		switch done["type"] {
		case "reasoning":
			send("output_item.added", item{"output_index": i, "item": begun})
		case "function_call":
			arguments := done["arguments"].(string)
			begun["status"], begun["arguments"] = "in_progress", ""
			send("output_item.added", item{"output_index": i, "item": begun})
			for _, delta := range strings.SplitAfter(arguments, ":") {
				send("function_call_arguments.delta", at(item{"delta": delta}))
			}
			send("function_call_arguments.done", at(item{"name": done["name"], "arguments": arguments}))
		case "message":
			part := done["content"].([]any)[0].(item)
			empty := maps.Clone(part)
			empty["text"] = ""
			begun["status"], begun["content"] = "in_progress", []any{}
			send("output_item.added", item{"output_index": i, "item": begun})
			send("content_part.added", at(item{"content_index": 0, "part": empty}))
			for _, delta := range strings.SplitAfter(part["text"].(string), " ") {
				send("output_text.delta", at(item{"content_index": 0, "delta": delta, "logprobs": []any{}}))
			}
			send("output_text.done", at(item{"content_index": 0, "text": part["text"], "logprobs": []any{}}))
			send("content_part.done", at(item{"content_index": 0, "part": part}))
		}
		send("output_item.done", item{"output_index": i, "item": done})
	}
	send("completed", item{"response": completed})
}
