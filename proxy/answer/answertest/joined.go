package answertest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A JoinedMessage is what clients make of a stream of the Messages API.
type JoinedMessage struct {
	Message map[string]any // as a whole answer
	Starts  int            // events that begin a message
	Ends    int            // events that end one
	Errors  []string       // events with errors
	Vendor  any            // the member "sidenote"
}

// JoinMessage joins a stream as Anthropic's SDKs do. It returns an error if an event is not JSON, or
// if the order is not that of one message: its start, blocks one after the other with indexes without
// gaps, its stop reason, and its end.
func JoinMessage(stream string) (m JoinedMessage, err error) {
	j := joining{JoinedMessage: &m}
	for event := range strings.SplitSeq(strings.ReplaceAll(strings.TrimPrefix(stream, "\ufeff"), "\r\n", "\n"), "\n\n") {
		data := ""
		for line := range strings.SplitSeq(event, "\n") {
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data += value
			}
		}
		if data == "" || strings.TrimSpace(data) == "[DONE]" {
			continue
		}
		var e map[string]any
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return m, fmt.Errorf("%w: %q", err, event)
		}
		if err := j.add(e); err != nil {
			return m, fmt.Errorf("%w: %q", err, event)
		}
	}
	_ = j.stop() // the input is incomplete if the stream is cut
	if m.Message != nil {
		m.Message["content"] = j.blocks
	}
	return m, nil
}

// A joining joins events.
type joining struct {
	*JoinedMessage
	blocks []any
	input  string // of the last block
	ended  bool   // there was a stop reason
}

// stop ends the last block.
func (j *joining) stop() error {
	text := j.input
	if j.input = ""; text == "" {
		return nil
	}
	var input map[string]any
	if err := json.Unmarshal([]byte(text), &input); err != nil {
		return fmt.Errorf("the input of block %d: %w", len(j.blocks)-1, err)
	}
	j.last()["input"] = input
	return nil
}

func (j *joining) last() map[string]any { return j.blocks[len(j.blocks)-1].(map[string]any) }

// add reads an event.
func (j *joining) add(e map[string]any) error {
	kind, _ := e["type"].(string)
	delta, _ := e["delta"].(map[string]any)
	last := len(j.blocks) - 1
	if strings.HasPrefix(kind, "content_block_") {
		at := last
		if kind == "content_block_start" {
			at++
		}
		if index, ok := e["index"].(float64); ok && int(index) != at || at < 0 || j.ended {
			return fmt.Errorf("%s after %d blocks, ended %v", kind, len(j.blocks), j.ended)
		}
	}
	if j.Starts == 0 && kind != "message_start" && kind != "ping" && kind != "error" {
		return fmt.Errorf("%s before the start", kind)
	}
	switch kind {
	case "message_start":
		j.Starts++
		j.Message, _ = e["message"].(map[string]any)
	case "content_block_start":
		if err := j.stop(); err != nil {
			return err
		}
		j.blocks = append(j.blocks, e["content_block"])
	case "content_block_delta":
		j.addDelta(delta)
	case "content_block_stop":
		return j.stop()
	case "message_delta":
		for name, value := range delta {
			j.Message[name] = value
			j.ended = j.ended || name == "stop_reason" && value != nil
		}
		begun, _ := j.Message["usage"].(map[string]any)
		used, _ := e["usage"].(map[string]any)
		for name, value := range used {
			begun[name] = value
		}
		j.Vendor = e["sidenote"]
	case "message_stop":
		j.Ends++
	case "error":
		raw, _ := json.Marshal(e["error"])
		j.Errors = append(j.Errors, string(raw))
	}
	return nil
}

// addDelta adds a delta to the last block.
func (j *joining) addDelta(delta map[string]any) {
	block := j.last()
	for name, value := range delta {
		text, _ := value.(string)
		switch name {
		case "type":
		case "partial_json":
			j.input += text
		case "citation":
			list, _ := block["citations"].([]any)
			block["citations"] = append(list, value)
		default:
			before, _ := block[name].(string)
			block[name] = before + text
		}
	}
}
