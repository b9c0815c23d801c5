// Package toolcallstest checks, for tests, that a request keeps the rules on tools that OpenAI's and
// Anthropic's servers enforce.
package toolcallstest

import (
	"encoding/json"
	"fmt"
)

type message struct {
	Role       string
	Content    any
	ToolCalls  *[]toolCall `json:"tool_calls"`
	ToolCallID *string     `json:"tool_call_id"`
}

type toolCall struct {
	ID       string
	Type     string
	Function *struct {
		Name      string
		Arguments *string
	}
	Custom *struct {
		Name  string
		Input *string
	}
}

// Check returns an error for the first rule that the messages of a request break, nil if there is
// none: tool_calls is not empty; each call has an id unique within the message, a type, a name
// and its arguments as a string; each is answered by exactly one tool message; these come right
// after the message with the calls; and there are no other tool messages.
func Check(body []byte) error {
	var request struct{ Messages []message }
	if err := json.Unmarshal(body, &request); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if len(request.Messages) == 0 {
		return fmt.Errorf("messages: [] is too short")
	}
	waiting, caller := map[string]bool{}, 0 // the calls of messages[caller] that are not answered yet
	for n, m := range request.Messages {
		if m.Role == "tool" {
			if err := answer(&m, waiting); err != nil {
				return fmt.Errorf("messages[%d]: %w", n, err)
			}
			continue
		}
		if len(waiting) > 0 {
			return fmt.Errorf("messages[%d]: tool_calls must be followed by tool messages that answer each: %v were not", caller, waiting)
		}
		var err error
		if waiting, err = calls(&m); err != nil {
			return fmt.Errorf("messages[%d]: %w", n, err)
		}
		caller = n
	}
	if len(waiting) > 0 {
		return fmt.Errorf("messages[%d]: tool_calls must be followed by tool messages that answer each: %v were not", caller, waiting)
	}
	return nil
}

// answer removes the call that a tool message answers from waiting.
func answer(m *message, waiting map[string]bool) error {
	switch {
	case m.ToolCallID == nil:
		return fmt.Errorf("tool_call_id is missing")
	case m.Content == nil:
		return fmt.Errorf("content is missing")
	case !waiting[*m.ToolCallID]:
		return fmt.Errorf("tool message must be a response to a preceding message with tool_calls: %q is none, or answered", *m.ToolCallID)
	}
	delete(waiting, *m.ToolCallID)
	return nil
}

// calls returns the ids of a message's calls.
func calls(m *message) (map[string]bool, error) {
	ids := map[string]bool{}
	if m.ToolCalls == nil {
		return ids, nil
	}
	if m.Role != "assistant" {
		return nil, fmt.Errorf("tool_calls of the role %q", m.Role)
	}
	if len(*m.ToolCalls) == 0 {
		return nil, fmt.Errorf("tool_calls: [] is too short")
	}
	for i, c := range *m.ToolCalls {
		function := c.Type == "function" && c.Function != nil && c.Function.Name != "" && c.Function.Arguments != nil
		custom := c.Type == "custom" && c.Custom != nil && c.Custom.Name != "" && c.Custom.Input != nil
		switch {
		case c.ID == "":
			return nil, fmt.Errorf("tool_calls[%d]: id is missing", i)
		case ids[c.ID]:
			return nil, fmt.Errorf("tool_calls[%d]: id %q stands twice", i, c.ID)
		case !function && !custom:
			return nil, fmt.Errorf("tool_calls[%d]: no call of a function or a custom tool", i)
		}
		ids[c.ID] = true
	}
	return ids, nil
}
