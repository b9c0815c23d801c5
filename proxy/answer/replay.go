package answer

import "strings"

// Drop forgets what this round said, of which the client has got nothing, but for what it used.
func (l *Loop) Drop() {
	l.role, l.id, l.created, l.now = false, nil, nil, loopAnswer{usage: l.now.usage}
}

// Said tells whether this round said anything: a text that is more than white space, what a model thought or
// refused, or a call.
func (l *Loop) Said() bool {
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

// Says returns the text of a message, also of one whose content is a list of parts: what is no text of
// these, such as what a model thought, is left out. It is "" if there is nothing but white space.
func (t *LoopTurn) Says() string {
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

// Refusal returns why a model does not answer, in its words; "" if it does.
func (t *LoopTurn) Refusal() string {
	for _, e := range t.extra {
		if e.name == "refusal" {
			return textOf(e.json())
		}
	}
	return ""
}

// Return ends the rounds with the answer of an earlier one, whole, and returns it as the client is to
// get it.
func (l *Loop) Return(body []byte) []byte {
	l.Begin(true)
	t, ok := l.EndWhole(body)
	if !ok {
		panic("BUG: an answer that was read is none")
	}
	if n := &l.now; n.usage != nil && !l.rules.LastUsage {
		n.usage = []byte(`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`) // it is in the sum
	}
	body, _ = l.Whole(&t, nil)
	return body
}

// LoopEvents returns a whole answer as the events of a stream: its message, the reason to finish, and
// what was used if the client asked for that, but for [DONE].
func LoopEvents(body []byte, usage bool) []byte {
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

// LoopDone is the event that ends a stream.
const LoopDone = "data: [DONE]\n\n"
