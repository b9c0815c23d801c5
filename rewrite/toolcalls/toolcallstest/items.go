package toolcallstest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// CheckItems returns an error for the first rule of the Responses API that the items of a
// conversation break, nil if there is none: each call has a call_id that no other has, a name and
// arguments; each result follows its call, and each call has one result; and reasoning is followed
// by an item of the model.
func CheckItems(items []json.RawMessage) error {
	waiting, seen, reasoning := map[string]bool{}, map[string]bool{}, false
	for n, raw := range items {
		var item struct {
			Type, Role, Name string
			CallID           string `json:"call_id"`
			Arguments        *string
			Output           any
		}
		if err := json.Unmarshal(raw, &item); err != nil {
			return fmt.Errorf("input[%d]: %w", n, err)
		}
		result := strings.HasSuffix(item.Type, "_output")
		message := item.Type == "" || item.Type == "message"
		switch {
		case reasoning && (result || message && item.Role != "assistant"):
			return fmt.Errorf("input[%d]: the reasoning before it was provided without its required following item", n)
		case item.Type == "function_call" && (item.CallID == "" || item.Name == "" || item.Arguments == nil):
			return fmt.Errorf("input[%d]: a call without call_id, name or arguments", n)
		case item.Type == "function_call" && seen[item.CallID]:
			return fmt.Errorf("input[%d]: call_id %q stands twice", n, item.CallID)
		case item.Type == "function_call":
			waiting[item.CallID], seen[item.CallID] = true, true
		case result && !waiting[item.CallID]:
			return fmt.Errorf("input[%d]: no tool call found for function call output with call_id %q", n, item.CallID)
		case result && item.Output == nil:
			return fmt.Errorf("input[%d]: output is missing", n)
		case result:
			delete(waiting, item.CallID)
		}
		reasoning = item.Type == "reasoning"
	}
	if reasoning {
		return fmt.Errorf("input[%d]: reasoning was provided without its required following item", len(items)-1)
	}
	for id := range waiting {
		return fmt.Errorf("no tool output found for function call %q", id)
	}
	return nil
}
