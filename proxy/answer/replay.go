package answer

import (
	"bytes"
	"strings"
)

// DiscardRound implements Loop.
func (l *completionsLoop) DiscardRound() {
	l.role, l.id, l.created, l.now = false, nil, nil, loopAnswer{usage: l.now.usage}
}

// HasOutput implements Loop.
func (l *completionsLoop) HasOutput() bool {
	n := &l.now
	if strings.TrimSpace(n.text.String()[min(n.blank, n.text.Len()):]) != "" || len(n.calls) > 0 {
		return true
	}
	n.blank = n.text.Len()
	for _, e := range n.extra {
		if raw := string(e.json()); raw != `""` && raw != "[]" && raw != "{}" {
			return true
		}
	}
	return false
}

// MessageText returns the text of the message, including text parts of a content that is a list. It
// returns "" if there is only white space.
func (t *LoopTurn) MessageText() string {
	text := t.Text
	for _, e := range t.extra {
		if e.name == "content" {
			for _, part := range elementsOf(e.json()) {
				if o, _ := objectOf(part); o.text("type") == "text" {
					text += o.text("text")
				}
			}
		}
	}
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return text
}

// Refusal returns the model's refusal; "" if there is none.
func (t *LoopTurn) Refusal() string {
	for _, i := range t.items {
		o, _ := objectOf(i.raw)
		for _, part := range elementsOf(o.get("content")) {
			if p, _ := objectOf(part); p.text("type") == "refusal" {
				return p.text("refusal")
			}
		}
	}
	for _, e := range t.extra {
		if e.name == "refusal" {
			return textOf(e.json())
		}
	}
	return ""
}

// ReplayWhole implements Loop.
func (l *completionsLoop) ReplayWhole(body []byte) []byte {
	l.Begin(true)
	t, ok := l.EndWhole(body)
	if !ok {
		panic("BUG: an answer that was read is none")
	}
	if n := &l.now; n.usage != nil && !l.rules.LastUsage {
		n.usage = []byte(`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`) // its usage is already in the sum
	}
	body, _ = l.Whole(&t, nil)
	return body
}

// Events implements Loop.
func (l *completionsLoop) Events(body []byte, usage bool, comment string) []byte {
	b := bytes.NewBuffer(completionEvents(body, usage))
	_ = EventComment(b, comment) // a bytes.Buffer never fails
	return append(b.Bytes(), "data: [DONE]\n\n"...)
}

// completionEvents returns events for each choice with its message and finish reason, then the
// usage if usage is set.
func completionEvents(body []byte, usage bool) []byte {
	o, _ := objectOf(body)
	head := object{}
	for _, m := range o {
		switch m.name {
		case "choices", "usage", "sidenote":
		case "object":
			head = append(head, member{m.name, []byte(`"chat.completion.chunk"`)})
		default:
			head = append(head, m)
		}
	}
	var events []byte
	event := func(choices [][]byte, used []byte) {
		e := append(append(object{}, head...), member{"choices", list(choices)})
		if usage {
			e = append(e, member{"usage", used})
		}
		events = append(append(append(events, "data: "...), e.json()...), "\n\n"...)
	}
	null := []byte("null")
	for _, raw := range elementsOf(o.get("choices")) {
		choice, _ := objectOf(raw)
		index := choice.get("index")
		if index == nil {
			index = []byte("0")
		}
		delta, finish := choice.get("message"), choice.get("finish_reason")
		if finish == nil {
			finish = null
		}
		event([][]byte{object{{"index", index}, {"delta", delta}, {"finish_reason", null}}.json()}, null)
		event([][]byte{object{{"index", index}, {"delta", []byte("{}")}, {"finish_reason", finish}}.json()}, null)
	}
	if used := o.get("usage"); usage && used != nil {
		event(nil, used)
	}
	return events
}
