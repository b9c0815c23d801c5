package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sidenote/rewrite/toolcalls/toolcallstest"
)

// A claude is a model behind the Messages API that records requests. It thinks if it is asked to, calls
// the tool weather, or Read of Claude Code, if that is offered, and answers when it has the result. It
// refuses requests that break the rules of the API.
type claude struct {
	recorder
	t        *testing.T
	searches bool                     // it calls search_knowledge, first by itself and then beside the other tool
	asked    []claudeRequest          // with what it keeps of earlier ones
	thought  []item                   // the thinking blocks of its answers
	threads  map[string]claudeRequest // conversations that it keeps, by the ids of their last answers
}

func newClaude(t *testing.T, searches bool) *claude {
	t.Helper()
	u := &claude{t: t, searches: searches, threads: map[string]claudeRequest{}}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(u.Close)
	return u
}

// A claudeRequest is what claude reads of a request.
type claudeRequest struct {
	MaxTokens *int `json:"max_tokens"`
	Stream    bool
	System    any
	Messages  []claudeMessage
	Mark      any `json:"cache_control"`
	Tools     []claudeTool
	Thinking  struct {
		Type string `json:"type"`
	}
	Thread struct {
		Type     string
		Previous string `json:"previous_message_id"`
	}
	OutputFormat any `json:"output_format"`
	OutputConfig struct {
		Format any
	} `json:"output_config"`
}

type claudeTool struct {
	Name string `json:"name"`
	Mark any    `json:"cache_control"`
}

type claudeMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// blocks returns the blocks of the content; a string is none.
func (m *claudeMessage) blocks() (list []item) {
	if own, ok := m.Content.([]item); ok { // of an answer
		return own
	}
	all, _ := m.Content.([]any)
	for _, one := range all {
		block, _ := one.(map[string]any)
		list = append(list, block)
	}
	return list
}

func (u *claude) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	counts := r.URL.Path == "/v1/messages/count_tokens"
	if err != nil || !counts && r.URL.Path != "/v1/messages" {
		refuseMessage(w, http.StatusNotFound, "not_found_error", "Only POST /v1/messages is here.") // also where Sidenote asks for the models
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests = append(u.requests, recorded{r.Method, r.RequestURI, r.Header.Clone(), body})
	var req claudeRequest
	if err := json.Unmarshal(body, &req); err != nil {
		refuseMessage(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	err = req.continueThread(u.threads)
	u.asked = append(u.asked, req)
	if err == nil {
		err = req.check(u.thought)
	}
	if err == nil && (req.MaxTokens == nil) != counts {
		err = fmt.Errorf("max_tokens: %v", req.MaxTokens)
	}
	if key := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); err == nil && (key != "sk-test" || r.Header.Get("Anthropic-Version") == "") {
		err = fmt.Errorf("headers: %q", r.Header)
	}
	if err != nil {
		u.t.Errorf("request %d: %v: %s", len(u.requests), err, body)
		refuseMessage(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	if counts {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(item{"input_tokens": 120})
		return
	}
	id, content := fmt.Sprintf("msg_%d", len(u.requests)), u.answer(&req)
	if req.Thread.Type != "" {
		req.Messages = append(slices.Clip(req.Messages), claudeMessage{"assistant", content})
		u.threads[id] = req
	}
	writeMessage(w, id, req.Stream, content)
}

// continueThread adds what the server keeps of a conversation.
func (r *claudeRequest) continueThread(threads map[string]claudeRequest) error {
	if r.Thread.Type != "continue" {
		return nil
	}
	before, ok := threads[r.Thread.Previous]
	switch {
	case !ok:
		return fmt.Errorf("thread: %q not found", r.Thread.Previous)
	case r.System != nil || r.Tools != nil:
		return errors.New("thread: system and tools cannot change")
	}
	r.System, r.Tools, r.Messages = before.System, before.Tools, slices.Concat(before.Messages, r.Messages)
	return nil
}

// readFile finds the file that the user of Claude Code tells of.
var readFile = regexp.MustCompile(`See (\S+?/weather\.txt)`)

// answer returns the content of the answer.
func (u *claude) answer(req *claudeRequest) (content []item) {
	n := len(u.requests)
	call := func(name string, input item) {
		content = append(content, item{"type": "tool_use", "id": fmt.Sprintf("toolu_%d_%d", n, len(content)), "name": name, "input": input})
	}
	if t := req.Thinking.Type; t == "enabled" || t == "adaptive" {
		thought := item{"type": "thinking", "thinking": fmt.Sprintf("Thought %d.", n), "signature": fmt.Sprintf("EqQBCgIYAhI%d==", n)}
		content, u.thought = append(content, thought), append(u.thought, thought)
	}
	if u.searches && req.offers("search_knowledge") && !req.hasResult("16 weeks") {
		call("search_knowledge", item{"query": "parental leave"})
		return content
	}
	file := readFile.FindStringSubmatch(fmt.Sprint(req.Messages))
	switch {
	case req.OutputFormat != nil || req.OutputConfig.Format != nil:
		return append(content, item{"type": "text", "text": `{"weeks":16}`})
	case req.hasResult("It rains in Bern."):
	case req.offers("weather"), req.offers("Read") && file != nil:
		if u.searches && req.offers("search_knowledge") {
			call("search_knowledge", item{"query": "parental leave on full pay"})
		}
		if req.offers("weather") {
			call("weather", item{"city": "Bern"})
		} else {
			call("Read", item{"file_path": file[1]})
		}
		return content
	}
	return append(content, req.cited()...)
}

// offers reports whether a tool is offered.
func (r *claudeRequest) offers(tool string) bool {
	return slices.ContainsFunc(r.Tools, func(t claudeTool) bool { return t.Name == tool })
}

// hasResult reports whether a result of a tool contains a text.
func (r *claudeRequest) hasResult(text string) bool {
	for i := range r.Messages {
		for _, block := range r.Messages[i].blocks() {
			if block["type"] == "tool_result" && strings.Contains(fmt.Sprint(block["content"]), text) {
				return true
			}
		}
	}
	return false
}

// cited returns the final answer, which cites the first search result on leave.
func (r *claudeRequest) cited() []item {
	index := 0
	for i := range r.Messages {
		for _, block := range r.Messages[i].blocks() {
			if block["type"] != "search_result" {
				continue
			}
			if strings.Contains(fmt.Sprint(block["content"]), "16 weeks") {
				citation := item{
					"type": "search_result_location", "cited_text": "16 weeks", "source": block["source"], "title": block["title"],
					"search_result_index": index, "start_block_index": 0, "end_block_index": 1,
				}
				first, rest, _ := strings.Cut(rainyAnswer.Text, " [1]")
				return []item{{"type": "text", "text": first + " [1]", "citations": []any{citation}}, {"type": "text", "text": rest}}
			}
			index++
		}
	}
	return []item{{"type": "text", "text": rainyAnswer.Text}}
}

// check returns an error for the first rule of the API that a request breaks. The thinking in the
// latest message of the model must be as it was said.
func (r *claudeRequest) check(thought []item) error {
	whole := item{"max_tokens": 1, "tools": r.Tools, "messages": r.Messages, "thinking": r.Thinking, "cache_control": r.Mark}
	if r.System != nil {
		whole["system"] = r.System
	}
	body, err := json.Marshal(whole)
	if err == nil {
		err = toolcallstest.CheckMessages(body)
	}
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(r.Messages) {
		if m.Role != "assistant" {
			continue
		}
		for n, block := range m.blocks() {
			if block["type"] == "thinking" && !slices.ContainsFunc(thought, func(t item) bool { return reflect.DeepEqual(t, block) }) {
				return fmt.Errorf("content.%d: thinking blocks in the latest assistant message cannot be modified", n)
			}
		}
		break
	}
	return nil
}

func refuseMessage(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(item{"type": "error", "error": item{"type": kind, "message": message}, "request_id": "req_1"})
}

// writeMessage writes an answer, whole or with all the events that Anthropic sends.
func writeMessage(w http.ResponseWriter, id string, stream bool, content []item) {
	usage := item{
		"input_tokens": 100, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 20,
		"cache_creation": item{"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, "output_tokens": 6, "service_tier": "standard",
	}
	reason := "end_turn"
	if slices.ContainsFunc(content, func(b item) bool { return b["type"] == "tool_use" }) {
		reason = "tool_use"
	}
	for _, block := range content {
		if block["type"] == "text" && block["citations"] == nil {
			block["citations"] = nil
		}
	}
	message := item{"id": id, "type": "message", "role": "assistant", "model": "claude-sonnet-5", "content": content, "stop_reason": reason, "stop_sequence": nil, "usage": usage}
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(message)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	send := func(name string, members item) {
		members["type"] = name
		data, _ := json.Marshal(members)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data)
		w.(http.Flusher).Flush()
	}
	begun := maps.Clone(message)
	begun["content"], begun["stop_reason"], begun["usage"] = []any{}, nil, maps.Clone(usage)
	begun["usage"].(item)["output_tokens"] = 1
	send("message_start", item{"message": begun})
	for i, block := range content {
		empty := maps.Clone(block)
		var deltas []item
		pieces := func(kind, member, text string) {
			for _, piece := range strings.SplitAfter(text, " ") {
				if piece != "" {
					deltas = append(deltas, item{"type": kind, member: piece})
				}
			}
		}
		switch block["type"] {
		case "thinking":
			pieces("thinking_delta", "thinking", block["thinking"].(string))
			deltas = append(deltas, item{"type": "signature_delta", "signature": block["signature"]})
			empty["thinking"], empty["signature"] = "", ""
		case "text":
			pieces("text_delta", "text", block["text"].(string))
			if list, ok := block["citations"].([]any); ok {
				empty["citations"] = []any{}
				for _, citation := range list {
					deltas = append(deltas, item{"type": "citations_delta", "citation": citation})
				}
			}
			empty["text"] = ""
		case "tool_use":
			input, _ := json.Marshal(block["input"])
			deltas = append(deltas, item{"type": "input_json_delta", "partial_json": ""})
			for _, piece := range bytes.SplitAfter(input, []byte(":")) {
				deltas = append(deltas, item{"type": "input_json_delta", "partial_json": string(piece)})
			}
			empty["input"] = item{}
		}
		send("content_block_start", item{"index": i, "content_block": empty})
		if i == 0 {
			send("ping", item{})
		}
		for _, delta := range deltas {
			send("content_block_delta", item{"index": i, "delta": delta})
		}
		send("content_block_stop", item{"index": i})
	}
	last := maps.Clone(usage)
	delete(last, "cache_creation")
	delete(last, "service_tier")
	send("message_delta", item{"delta": item{"stop_reason": reason, "stop_sequence": nil}, "usage": last})
	send("message_stop", item{})
}
