package answertest

import (
	"fmt"
	"strconv"
)

// An ItemHabit describes how a server encodes answers of the Responses API.
type ItemHabit struct {
	Name string

	Whole        bool // a call or text comes in one delta, without events for parts
	NoNumbers    bool // events have no sequence_number
	NoEventLines bool // events have no line "event:"
	NoIDs        bool // items have no ids
	SameIndex    bool // each output_index is 0
	Bare         bool // items have no events of their own, except when they are done
	EmptyEnd     bool // the last event has no output
	Done         bool // [DONE] ends a stream

	Pieces func(text string) []string // splits texts and arguments into deltas
}

// ItemHabits returns the habits of real servers, and of some that omit what OpenAI's documentation
// promises.
func ItemHabits() []ItemHabit {
	with := func(name string, change func(*ItemHabit)) ItemHabit {
		h := ItemHabit{Name: name, Pieces: Every(5)}
		change(&h)
		return h
	}
	return []ItemHabit{
		with("openai", func(*ItemHabit) {}),
		with("vllm", func(h *ItemHabit) { h.Pieces = Every(3) }),
		with("ollama", func(h *ItemHabit) { h.Whole = true }),
		with("litellm", func(h *ItemHabit) { h.SameIndex, h.NoNumbers, h.Done = true, true, true }),
		with("llama.cpp", func(h *ItemHabit) { h.NoNumbers, h.Done = true, true }),
		with("no-event-lines", func(h *ItemHabit) { h.NoEventLines = true }),
		with("no-ids", func(h *ItemHabit) { h.NoIDs = true }),
		with("bare", func(h *ItemHabit) { h.Bare = true }),
		with("empty-end", func(h *ItemHabit) { h.EmptyEnd = true }),
	}
}

// A responding encodes the nth answer of a dialogue as a response.
type responding struct {
	Answer
	habit    ItemHabit
	n        int
	model    string
	sequence int
	list     [][]byte
}

// status returns the status of the response and the reason why it is incomplete.
func (s *responding) status() (status string, details any) {
	switch s.Finish {
	case "length":
		return "incomplete", map[string]string{"reason": "max_output_tokens"}
	case "content_filter":
		return "incomplete", map[string]string{"reason": "content_filter"}
	}
	return "completed", nil
}

type responseItem map[string]any

// items returns the finished output items.
func (s *responding) items() (list []responseItem) {
	add := func(prefix string, item responseItem) {
		if !s.habit.NoIDs {
			item["id"] = fmt.Sprintf("%s_%d_%d", prefix, s.n, len(list))
		}
		list = append(list, item)
	}
	if s.Reasoning != "" {
		add("rs", responseItem{"type": "reasoning", "summary": []any{map[string]any{"type": "summary_text", "text": s.Reasoning}}, "encrypted_content": "gAAA" + strconv.Itoa(s.n)})
	}
	if s.Text != "" || s.Refusal != "" {
		var content []any
		if s.Text != "" {
			content = append(content, map[string]any{"type": "output_text", "text": s.Text, "annotations": []any{}, "logprobs": []any{}})
		}
		if s.Refusal != "" {
			content = append(content, map[string]any{"type": "refusal", "refusal": s.Refusal})
		}
		add("msg", responseItem{"type": "message", "status": "completed", "role": "assistant", "content": content})
	}
	for i, c := range s.Calls {
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("call_%024d", 100*s.n+i)
		}
		add("fc", responseItem{"type": "function_call", "status": "completed", "call_id": id, "name": c.Name, "arguments": c.Arguments})
	}
	return list
}

// response returns the response with the given output.
func (s *responding) response(status string, output []responseItem, usage bool) map[string]any {
	_, details := s.status()
	r := map[string]any{
		"id": fmt.Sprintf("resp_%d", s.n), "object": "response", "created_at": 1700000000 + s.n, "status": status, "model": s.model, "output": append([]responseItem{}, output...),
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "error": nil, "incomplete_details": nil, "usage": nil,
	}
	if usage {
		r["incomplete_details"] = details
		r["usage"] = map[string]any{
			"input_tokens": s.PromptTokens, "input_tokens_details": map[string]int{"cached_tokens": 0},
			"output_tokens": s.Tokens, "output_tokens_details": map[string]int{"reasoning_tokens": 0}, "total_tokens": s.PromptTokens + s.Tokens,
		}
	}
	return r
}

// whole returns the answer as one JSON object.
func (s *responding) whole() []byte {
	status, _ := s.status()
	return encode(s.response(status, s.items(), true))
}

// event adds an event.
func (s *responding) event(name string, members map[string]any) {
	members["type"] = name
	if !s.habit.NoNumbers {
		members["sequence_number"] = s.sequence
	}
	s.sequence++
	head := "event: " + name + "\n"
	if s.habit.NoEventLines {
		head = ""
	}
	s.list = append(s.list, fmt.Appendf(nil, "%sdata: %s\n\n", head, encode(members)))
}

// events returns the events of the streamed answer. If it is cut or waits, they end before the last
// one.
func (s *responding) events() [][]byte {
	s.event("response.created", map[string]any{"response": s.response("in_progress", nil, false)})
	s.event("response.in_progress", map[string]any{"response": s.response("in_progress", nil, false)})
	items := s.items()
	for i, item := range items {
		if s.habit.SameIndex {
			i = 0
		}
		s.item(i, item)
	}
	if s.Cut || s.Wait {
		return s.list
	}
	status, _ := s.status()
	if s.habit.EmptyEnd {
		items = nil
	}
	s.event("response."+status, map[string]any{"response": s.response(status, items, true)})
	if s.habit.Done {
		s.list = append(s.list, []byte("data: [DONE]\n\n"))
	}
	return s.list
}

// item adds the events of an item.
func (s *responding) item(index int, item responseItem) {
	at := func(more map[string]any) map[string]any {
		more["output_index"] = index
		if item["id"] != nil && more["item"] == nil {
			more["item_id"] = item["id"]
		}
		return more
	}
	begun := responseItem{}
	for name, value := range item {
		begun[name] = value
	}
	switch item["type"] {
	case "message":
		begun["content"], begun["status"] = []any{}, "in_progress"
	case "reasoning":
		begun["summary"] = []any{}
		delete(begun, "encrypted_content")
	default:
		begun["arguments"], begun["status"] = "", "in_progress"
	}
	defer func() { s.event("response.output_item.done", at(map[string]any{"item": item})) }()
	if s.habit.Bare {
		return
	}
	s.event("response.output_item.added", at(map[string]any{"item": begun}))
	deltas := func(name, text string, part map[string]any) {
		pieces := s.habit.Pieces(text)
		if s.habit.Whole {
			pieces = []string{text}
		}
		for _, piece := range pieces {
			more := at(map[string]any{"delta": piece})
			for k, v := range part {
				more[k] = v
			}
			s.event(name, more)
		}
	}
	switch item["type"] {
	case "function_call":
		deltas("response.function_call_arguments.delta", item["arguments"].(string), nil)
		s.event("response.function_call_arguments.done", at(map[string]any{"arguments": item["arguments"]}))
	case "reasoning":
		deltas("response.reasoning_summary_text.delta", s.Reasoning, map[string]any{"summary_index": 0})
	case "message":
		for n, raw := range item["content"].([]any) {
			s.part(n, raw.(map[string]any), at, deltas)
		}
	}
}

// part adds the events of a part of a message.
func (s *responding) part(n int, part map[string]any, at func(map[string]any) map[string]any, deltas func(name, text string, more map[string]any)) {
	index := map[string]any{"content_index": n}
	if part["type"] == "refusal" {
		s.event("response.content_part.added", at(map[string]any{"content_index": n, "part": map[string]any{"type": "refusal", "refusal": ""}}))
		deltas("response.refusal.delta", part["refusal"].(string), index)
		s.event("response.refusal.done", at(map[string]any{"content_index": n, "refusal": part["refusal"]}))
		s.event("response.content_part.done", at(map[string]any{"content_index": n, "part": part}))
		return
	}
	if !s.habit.Whole {
		s.event("response.content_part.added", at(map[string]any{"content_index": n, "part": map[string]any{"type": "output_text", "text": "", "annotations": []any{}, "logprobs": []any{}}}))
	}
	deltas("response.output_text.delta", part["text"].(string), map[string]any{"content_index": n, "logprobs": []any{}})
	s.event("response.output_text.done", at(map[string]any{"content_index": n, "text": part["text"], "logprobs": []any{}}))
	if !s.habit.Whole {
		s.event("response.content_part.done", at(map[string]any{"content_index": n, "part": part}))
	}
}
