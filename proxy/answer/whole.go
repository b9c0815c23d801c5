package answer

import (
	"encoding/json"
	"slices"
	"strings"
)

// EndWhole implements Loop.
func (l *completionsLoop) EndWhole(body []byte) (t LoopTurn, ok bool) {
	n := &l.now
	o, isObject := objectOf(body)
	choices := elementsOf(o.get("choices"))
	if !isObject || len(choices) != 1 {
		return t, false
	}
	choice, _ := objectOf(choices[0])
	message, isObject := objectOf(choice.get("message"))
	if !isObject {
		return t, false
	}
	n.body, n.raw = o, body
	n.finish = choice.text("finish_reason")
	if u := o.get("usage"); len(u) > 0 && u[0] == '{' {
		n.usage = u
	}
	for _, m := range message {
		switch m.name {
		case "role":
		case "content":
			if m.value[0] == '[' && n.reader != nil {
				wholeParts(l, m.value)
				continue
			}
			if m.value[0] == '[' {
				n.join(m)
				continue
			}
			wholeText(l, m.value)
		case "tool_calls":
			for _, raw := range elementsOf(m.value) {
				if piece, ok := objectOf(raw); ok {
					n.newCall(len(n.calls)).add(piece)
				}
			}
		default:
			if string(m.value) != "null" {
				n.join(m)
			}
		}
	}
	for _, c := range n.calls {
		c.theirs = c.theirs || !l.rules.Ours(c.name)
	}
	return l.turn(), true
}

// wholeParts reads content parts whose texts may contain calls.
func wholeParts(l *completionsLoop, raw []byte) {
	var texts strings.Builder
	for _, part := range elementsOf(raw) {
		if _, text, ok := textIn(part); ok {
			texts.WriteString(text)
			continue
		}
		l.now.join(member{"content", list([][]byte{part})})
	}
	wholeText(l, quote(texts.String()))
}

// wholeText reads the text of a whole answer.
func wholeText(l *completionsLoop, raw []byte) {
	n := &l.now
	text := textOf(raw)
	if string(raw) == "null" {
		text = ""
	}
	n.text.WriteString(text)
	if n.reader != nil {
		text = string(n.reader.Write([]byte(text)))
		n.endText()
		text += string(n.rest)
	}
	if text != "" {
		n.show.WriteString(l.lead() + text)
	}
}

// Whole implements Loop.
func (l *completionsLoop) Whole(t *LoopTurn, vendor json.RawMessage) (body []byte, changed bool) {
	n := &l.now
	if l.round == 1 && len(n.found) == 0 && len(n.calls) == len(t.ClientCalls) && vendor == nil {
		return n.raw, false
	}
	choice, _ := objectOf(elementsOf(n.body.get("choices"))[0])
	message, _ := objectOf(choice.get("message"))
	text, parts := l.shown+n.show.String(), elementsOf(message.get("content"))
	switch {
	case parts != nil && l.rules.Text != nil: // text already contains their texts
		parts = slices.DeleteFunc(parts, func(part []byte) bool { _, _, ok := textIn(part); return ok })
		if text != "" {
			parts = append(parts, textPart(text))
		}
		message.set("content", list(parts))
	case parts != nil && text != "":
		message.set("content", list(append([][]byte{textPart(text)}, parts...)))
	case parts == nil && text != t.Text:
		message.set("content", quote(text))
	}
	if len(n.calls) > 0 {
		message.drop("tool_calls")
		var theirs [][]byte
		for i := range t.ClientCalls {
			theirs = append(theirs, t.ClientCalls[i].JSON)
		}
		if len(theirs) > 0 {
			message.set("tool_calls", list(theirs))
		}
	}
	choice.set("message", message.json())
	if reason, ok := l.finished(); ok {
		choice.set("finish_reason", reason)
	}
	n.body.set("choices", list([][]byte{choice.json()}))
	if used := l.total(n.usage); used != nil {
		n.body.set("usage", used)
	}
	if vendor != nil {
		n.body.set("sidenote", vendor)
	}
	return n.body.json(), true
}
