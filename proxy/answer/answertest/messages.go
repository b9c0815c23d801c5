package answertest

import (
	"encoding/json"
	"fmt"
)

// A BlockHabit describes how a server encodes answers of the Messages API.
type BlockHabit struct {
	Name string

	NoPings      bool // there are no pings
	NoEventLines bool // events have no line "event:"
	NoIndexes    bool // events of blocks have no index
	InputAtOnce  bool // the input of a call is in the event that begins the block
	NoEndUsage   bool // the end has no usage, the beginning has all of it
	Done         bool // [DONE] ends a stream

	Pieces func(text string) []string // splits texts and input into deltas
}

// BlockHabits returns the habits of real servers, and of some that omit what Anthropic's
// documentation promises.
func BlockHabits() []BlockHabit {
	with := func(name string, change func(*BlockHabit)) BlockHabit {
		h := BlockHabit{Name: name, Pieces: Every(5)}
		change(&h)
		return h
	}
	return []BlockHabit{
		with("anthropic", func(*BlockHabit) {}),
		with("vllm", func(h *BlockHabit) { h.NoPings, h.Pieces, h.Done = true, Every(3), true }),
		with("ollama", func(h *BlockHabit) { h.NoPings, h.InputAtOnce = true, true }),
		with("litellm", func(h *BlockHabit) { h.NoPings, h.Pieces = true, Every(1) }),
		with("no-event-lines", func(h *BlockHabit) { h.NoEventLines = true }),
		with("no-indexes", func(h *BlockHabit) { h.NoIndexes, h.NoPings = true, true }),
		with("no-usage-at-the-end", func(h *BlockHabit) { h.NoEndUsage = true }),
	}
}

// A messaging encodes the nth answer of a dialogue as a message.
type messaging struct {
	Answer
	habit BlockHabit
	n     int
	model string
	list  [][]byte
}

// stop returns the stop reason.
func (s *messaging) stop() string {
	switch s.Finish {
	case "length":
		return "max_tokens"
	case "content_filter":
		return "refusal"
	case "tool_calls":
		return "tool_use"
	case "stop":
		return "end_turn"
	}
	return s.Finish
}

// input returns the input of a call, which must be an object.
func input(arguments string) json.RawMessage {
	var object map[string]any
	if json.Unmarshal([]byte(arguments), &object) != nil {
		return json.RawMessage("{}")
	}
	return json.RawMessage(arguments)
}

// blocks returns the content blocks.
func (s *messaging) blocks() (list []map[string]any) {
	if s.Reasoning != "" {
		list = append(list, map[string]any{"type": "thinking", "thinking": s.Reasoning, "signature": fmt.Sprintf("Eq%d==", s.n)})
	}
	if s.Text != "" {
		list = append(list, map[string]any{"type": "text", "text": s.Text})
	}
	for i, c := range s.Calls {
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("toolu_%024d", 100*s.n+i)
		}
		list = append(list, map[string]any{"type": "tool_use", "id": id, "name": c.Name, "input": input(c.Arguments)})
	}
	return list
}

// message returns the message with the given content.
func (s *messaging) message(content []map[string]any, stop any, output int) map[string]any {
	return map[string]any{
		"id": fmt.Sprintf("msg_%d", s.n), "type": "message", "role": "assistant", "model": s.model, "content": append([]map[string]any{}, content...), "stop_reason": stop, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": s.PromptTokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output},
	}
}

// whole returns the answer as one JSON object.
func (s *messaging) whole() []byte { return encode(s.message(s.blocks(), s.stop(), s.Tokens)) }

// event adds an event.
func (s *messaging) event(name string, members map[string]any) {
	members["type"] = name
	head := "event: " + name + "\n"
	if s.habit.NoEventLines {
		head = ""
	}
	s.list = append(s.list, fmt.Appendf(nil, "%sdata: %s\n\n", head, encode(members)))
}

// events returns the events of the streamed answer. If it is cut or waits, they end before those
// that end the message.
func (s *messaging) events() [][]byte {
	output := 1
	if s.habit.NoEndUsage {
		output = s.Tokens
	}
	s.event("message_start", map[string]any{"message": s.message(nil, nil, output)})
	for n, block := range s.blocks() {
		s.block(n, block)
		if n == 0 && !s.habit.NoPings {
			s.event("ping", map[string]any{})
		}
	}
	if s.Cut || s.Wait {
		return s.list
	}
	end := map[string]any{"delta": map[string]any{"stop_reason": s.stop(), "stop_sequence": nil}}
	if !s.habit.NoEndUsage {
		end["usage"] = map[string]int{"output_tokens": s.Tokens}
	}
	s.event("message_delta", end)
	s.event("message_stop", map[string]any{})
	if s.habit.Done {
		s.list = append(s.list, []byte("data: [DONE]\n\n"))
	}
	return s.list
}

// block adds the events of a content block.
func (s *messaging) block(index int, block map[string]any) {
	event := func(name string, members map[string]any) {
		if !s.habit.NoIndexes {
			members["index"] = index
		}
		s.event(name, members)
	}
	var deltas []map[string]any
	cut := func(kind, member string) {
		for _, piece := range s.habit.Pieces(block[member].(string)) {
			deltas = append(deltas, map[string]any{"type": kind, member: piece})
		}
		block[member] = ""
	}
	switch block["type"] {
	case "thinking":
		cut("thinking_delta", "thinking")
		cut("signature_delta", "signature")
	case "text":
		cut("text_delta", "text")
	case "tool_use":
		if !s.habit.InputAtOnce {
			for _, piece := range append([]string{""}, s.habit.Pieces(string(block["input"].(json.RawMessage)))...) {
				deltas = append(deltas, map[string]any{"type": "input_json_delta", "partial_json": piece})
			}
			block["input"] = map[string]any{}
		}
	}
	event("content_block_start", map[string]any{"content_block": block})
	for _, delta := range deltas {
		event("content_block_delta", map[string]any{"delta": delta})
	}
	event("content_block_stop", map[string]any{})
}
