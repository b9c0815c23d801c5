package answer

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// EndStream implements Loop.
func (l *completionsLoop) EndStream(next io.Writer) (LoopTurn, error) {
	n := &l.now
	var rest []object
	for _, c := range n.calls {
		if !c.theirs && !l.rules.Ours(c.name) {
			c.theirs = true
			rest = append(rest, number(l, c, c.take())...)
		}
	}
	turn := l.turn()
	if len(rest) > 0 && !l.now.open {
		var all [][]byte
		for _, piece := range rest {
			all = append(all, piece.json())
		}
		if err := l.emit(next, object{{"tool_calls", list(all)}}); err != nil {
			return turn, err
		}
	}
	return turn, nil
}

// emit writes an event with that delta.
func (l *completionsLoop) emit(next io.Writer, delta object) error {
	o := append(object{}, l.now.pattern...)
	choice := object{{"index", []byte("0")}, {"delta", delta.json()}, {"finish_reason", []byte("null")}}
	o.set("choices", list([][]byte{choice.json()}))
	return EventData(next, o.json())
}

// EventData writes an event with that data.
func EventData(next io.Writer, data []byte) error {
	_, err := next.Write(append(append([]byte("data: "), data...), "\n\n"...))
	return err
}

// inOneLine replaces line breaks by spaces.
var inOneLine = strings.NewReplacer("\r", " ", "\n", " ")

// EventComment writes a server-sent-events comment, which clients ignore.
func EventComment(next io.Writer, text string) error {
	text = inOneLine.Replace(text)
	_, err := io.WriteString(next, ": "+text+"\n\n")
	return err
}

// Continue implements Loop.
func (l *completionsLoop) Continue(next io.Writer) error {
	n := &l.now
	if l.hides() {
		n.show.Reset()
		return nil
	}
	if err := sayRest(l, next); err != nil {
		return err
	}
	for _, event := range n.tail {
		data, _, _ := dataOf(event)
		o, _ := objectOf(data)
		for _, raw := range elementsOf(o.get("choices")) {
			choice, _ := objectOf(raw)
			delta, _ := objectOf(choice.get("delta"))
			if text := delta.get("content"); textOf(text) != "" {
				if err := l.emit(next, object{{"content", text}}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// says reports whether the client has yet to get text that the LoopTextReader held back.
func (n *loopAnswer) says() bool { return len(n.rest) > 0 && n.body == nil && !n.open }

// sayRest writes the text that the LoopTextReader held back.
func sayRest(l *completionsLoop, next io.Writer) error {
	n := &l.now
	if !n.says() {
		return nil
	}
	text := l.lead() + string(n.rest)
	n.rest = nil
	n.show.WriteString(text)
	return l.emit(next, object{{"content", quote(text)}})
}

// Finish implements Loop. It writes the hidden events, an event with the member "sidenote", the
// finish reason, usage, the comment, and [DONE].
func (l *completionsLoop) Finish(next io.Writer, vendor json.RawMessage, comment string) error {
	n := &l.now
	for _, event := range n.hidden {
		if _, err := next.Write(event); err != nil {
			return err
		}
	}
	if err := sayRest(l, next); err != nil {
		return err
	}
	if vendor != nil && !n.open {
		o := append(append(object{}, n.pattern...), member{"choices", []byte("[]")}, member{"sidenote", vendor})
		if err := EventData(next, o.json()); err != nil {
			return err
		}
	}
	reason, changed := l.finished()
	for i, event := range n.tail {
		if changed {
			event = withReason(event, reason)
		}
		if i == len(n.tail)-1 && comment != "" && !ended(event) { // the upstream omitted the empty line
			event = append(bytes.TrimRight(event, "\r\n"), "\n\n"...)
		}
		if _, err := next.Write(event); err != nil {
			return err
		}
	}
	if comment != "" && !n.open {
		if err := EventComment(next, comment); err != nil {
			return err
		}
	}
	if n.done == nil {
		return nil
	}
	_, err := next.Write(n.done)
	return err
}

// withReason replaces the finish reason of an event.
func withReason(event, reason []byte) []byte {
	data, from, to := dataOf(event)
	o, _ := objectOf(data)
	choices := elementsOf(o.get("choices"))
	if len(choices) == 0 {
		return event
	}
	for i := range choices {
		if choice, ok := objectOf(choices[i]); ok && choice.get("finish_reason") != nil {
			choice.set("finish_reason", reason)
			choices[i] = choice.json()
		}
	}
	o.set("choices", list(choices))
	return splice(event, from, to, o.json())
}

// Fail implements Loop.
func (l *completionsLoop) Fail(next io.Writer, body []byte) error {
	return EventData(next, append(append([]byte(`{"error":`), errorIn(body)...), '}'))
}

// errorIn returns the error in a response body or, if it has none, one that says that the answer
// broke off.
func errorIn(body []byte) []byte {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && len(said.Error) > 0 {
		return said.Error
	}
	return []byte(`{"code":"upstream_broken","message":"The answer broke off between two calls; try again.","param":null,"type":"server_error"}`)
}
