package toolcallstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A blocksMessage is a message of a Messages request.
type blocksMessage struct {
	role   string
	blocks []contentBlock
}

// A contentBlock is what the rules are about.
type contentBlock struct {
	Type      string
	Text      *string
	ID, Name  string
	ToolUseID string `json:"tool_use_id"`
	Input     json.RawMessage
	Content   json.RawMessage
	Thinking  *string
	Data      *string
	Mark      json.RawMessage `json:"cache_control"`
}

func (b *contentBlock) thinks() bool { return b.Type == "thinking" || b.Type == "redacted_thinking" }

// marked reports whether the block has a mark for the prompt cache.
func (b *contentBlock) marked() bool { return len(b.Mark) > 0 && string(b.Mark) != "null" }

// maxMarks is how many marks for the prompt cache a request may have.
const maxMarks = 4

// CheckMessages returns an error for the first rule of Anthropic's Messages API that a request
// breaks, nil if there is none: max_tokens and the roles are given, the first message is the user's,
// each tool_use has an id that no other has and one tool_result in the next message, results come
// first in their message, thinking is the model's and neither marked nor at the end of a message, and
// begins a turn that calls tools if it is enabled, no text is empty, there are at most four marks for
// the prompt cache, the names of tools differ, and tools are defined if they were used.
func CheckMessages(body []byte) error {
	var request struct {
		MaxTokens *int `json:"max_tokens"`
		System    json.RawMessage
		Messages  []struct {
			Role    string
			Content json.RawMessage
		}
		Tools []struct {
			Name string
			Mark json.RawMessage `json:"cache_control"`
		}
		Thinking struct{ Type string }
		Mark     json.RawMessage `json:"cache_control"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if request.MaxTokens == nil {
		return errors.New("max_tokens: Field required")
	}
	marks := 0
	mark := func(b contentBlock) {
		if b.marked() {
			marks++
		}
	}
	mark(contentBlock{Mark: request.Mark})
	names := map[string]bool{}
	for _, tool := range request.Tools {
		if names[tool.Name] && tool.Name != "" {
			return fmt.Errorf("tools: Tool names must be unique: %q", tool.Name)
		}
		names[tool.Name] = true
		mark(contentBlock{Mark: tool.Mark})
	}
	system, err := contentOf(request.System)
	if err != nil {
		return fmt.Errorf("system: %w", err)
	}
	for _, b := range system {
		if b.Type != "text" {
			return fmt.Errorf("system: a block of type %q", b.Type)
		}
		mark(b)
	}
	var messages []blocksMessage
	for n, m := range request.Messages {
		blocks, err := contentOf(m.Content)
		if err == nil && len(blocks) == 0 && (m.Role != "assistant" || n+1 < len(request.Messages)) {
			err = errors.New("all messages must have non-empty content except for the optional final assistant message")
		}
		if err != nil {
			return fmt.Errorf("messages.%d: %w", n, err)
		}
		for _, b := range blocks {
			mark(b)
		}
		messages = append(messages, blocksMessage{m.Role, blocks})
	}
	if len(messages) == 0 || messages[0].role != "user" {
		return errors.New("messages: first message must use the \"user\" role")
	}
	if marks > maxMarks {
		return fmt.Errorf("a maximum of %d blocks with cache_control may be provided, found %d", maxMarks, marks)
	}
	used, err := checkToolBlocks(messages)
	if err == nil && used && len(request.Tools) == 0 {
		err = errors.New("requests which include tool_use or tool_result blocks must define tools")
	}
	if err == nil && request.Thinking.Type == "enabled" {
		err = checkThinking(messages)
	}
	return err
}

// checkThinking checks that a turn that has called tools began with thinking.
func checkThinking(messages []blocksMessage) error {
	first := len(messages) // of the turn
	for n, m := range messages {
		switch {
		case m.role == "user" && len(m.blocks) > 0 && m.blocks[0].Type != "tool_result":
			first = len(messages)
		case m.role == "assistant":
			first = min(first, n)
		}
	}
	if first < len(messages)-1 && !messages[first].blocks[0].thinks() {
		return fmt.Errorf("messages.%d.content.0: when thinking is enabled, an assistant message must start with a thinking block (preceding the last set of tool_use and tool_result blocks)", first)
	}
	return nil
}

// contentOf reads a content, checking its blocks one by one.
func contentOf(raw json.RawMessage) (blocks []contentBlock, err error) {
	var text string
	switch {
	case len(raw) == 0:
		return nil, nil
	case json.Unmarshal(raw, &text) == nil && raw[0] == '"':
		if text == "" {
			return nil, nil
		}
		return []contentBlock{{Type: "text", Text: &text}}, nil
	case raw[0] != '[':
		return nil, errors.New("content is neither a string nor a list")
	}
	if err := json.Unmarshal(raw, &blocks); err != nil {
		return nil, err
	}
	for n := range blocks {
		if err := blocks[n].check(); err != nil {
			return nil, fmt.Errorf("content.%d: %w", n, err)
		}
	}
	return blocks, nil
}

// check checks a block alone.
func (b *contentBlock) check() error {
	switch {
	case b.Type == "":
		return errors.New("type: Field required")
	case b.Type == "text" && (b.Text == nil || strings.TrimSpace(*b.Text) == ""):
		return errors.New("text content blocks must be non-empty")
	case b.Type == "thinking" && b.Thinking == nil, b.Type == "redacted_thinking" && b.Data == nil:
		return errors.New("thinking without its text")
	case b.thinks() && b.marked():
		return errors.New("cache_control cannot be set on thinking blocks")
	case b.Type == "tool_use" && (b.ID == "" || b.Name == ""):
		return errors.New("a tool_use without id or name")
	case b.Type == "tool_use" && (len(b.Input) == 0 || b.Input[0] != '{'):
		return errors.New("tool_use.input: Input should be a valid dictionary")
	case b.Type == "tool_result" && b.ToolUseID == "":
		return errors.New("tool_result.tool_use_id: Field required")
	case b.Type == "tool_result" && len(b.Content) > 0:
		inner, err := contentOf(bytes.TrimSpace(b.Content))
		for i := range inner {
			if inner[i].thinks() || strings.HasPrefix(inner[i].Type, "tool_") && inner[i].Type != "tool_reference" {
				err = fmt.Errorf("a block of type %q in a result", inner[i].Type)
			}
		}
		return err
	}
	return nil
}

// checkToolBlocks checks what the messages must keep together. used reports that tools are used.
func checkToolBlocks(messages []blocksMessage) (used bool, err error) {
	waiting, seen := map[string]bool{}, map[string]bool{}
	for n, m := range messages {
		switch m.role {
		case "user", "assistant", "system":
		default:
			return false, fmt.Errorf("messages.%d: the role %q", n, m.role)
		}
		calls, others := map[string]bool{}, false
		for i, b := range m.blocks {
			at := fmt.Sprintf("messages.%d.content.%d", n, i)
			switch {
			case b.thinks() && m.role != "assistant":
				return false, fmt.Errorf("%s: thinking of the role %q", at, m.role)
			case b.thinks() && i == len(m.blocks)-1:
				return false, fmt.Errorf("%s: the final block in an assistant message cannot be %s", at, b.Type)
			case b.Type == "tool_use" && m.role != "assistant":
				return false, fmt.Errorf("%s: a tool_use of the role %q", at, m.role)
			case b.Type == "tool_use" && seen[b.ID]:
				return false, fmt.Errorf("%s: tool_use ids must be unique: %q", at, b.ID)
			case b.Type == "tool_use":
				calls[b.ID], seen[b.ID], used = true, true, true
			case b.Type == "tool_result" && (m.role != "user" || !waiting[b.ToolUseID]):
				return false, fmt.Errorf("%s: unexpected tool_use_id %q in tool_result blocks: each must have a corresponding tool_use block in the previous message", at, b.ToolUseID)
			case b.Type == "tool_result" && others:
				return false, fmt.Errorf("%s: tool_result blocks come first", at)
			case b.Type == "tool_result":
				delete(waiting, b.ToolUseID)
			}
			others = others || b.Type != "tool_result"
		}
		if len(waiting) > 0 {
			return false, fmt.Errorf("messages.%d: tool_use ids were found without tool_result blocks immediately after: %v", n-1, waiting)
		}
		waiting = calls
	}
	if len(waiting) > 0 {
		return false, fmt.Errorf("messages.%d: tool_use ids were found without tool_result blocks immediately after: %v", len(messages)-1, waiting)
	}
	return used, nil
}
