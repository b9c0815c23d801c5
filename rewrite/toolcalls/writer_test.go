package toolcalls_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"pgregory.net/rapid"

	"sidenote/rewrite/toolcalls"
)

// A writer writes JSON in one of the many ways that clients use.
type writer struct {
	t *rapid.T
	b strings.Builder
}

func (w *writer) pick(n int) int { return rapid.IntRange(0, n-1).Draw(w.t, "way") }

func (w *writer) space() { w.b.WriteString([]string{"", "", " ", "\n  ", "\t\r\n"}[w.pick(5)]) }

func (w *writer) text(s string) {
	w.b.WriteByte('"')
	way := w.pick(3)
	for _, r := range s {
		switch {
		case r == '/' && way == 1:
			w.b.WriteString(`\/`)
		case r == '\n' && way == 1:
			w.b.WriteString(`\n`)
		case r == '"' || r == '\\':
			w.b.WriteString(`\` + string(r))
		case r < ' ' || way == 2:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&w.b, `\u%04x`, unit)
			}
		default:
			w.b.WriteRune(r)
		}
	}
	w.b.WriteByte('"')
}

// object writes members in random order.
func (w *writer) object(members map[string]func()) {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	w.b.WriteByte('{')
	for i, name := range rapid.Permutation(names).Draw(w.t, "members") {
		if i > 0 {
			w.b.WriteByte(',')
		}
		w.space()
		w.text(name)
		w.space()
		w.b.WriteByte(':')
		w.space()
		members[name]()
	}
	w.space()
	w.b.WriteByte('}')
}

func (w *writer) list(n int, element func(i int)) {
	w.b.WriteByte('[')
	for i := range n {
		if i > 0 {
			w.b.WriteByte(',')
		}
		w.space()
		element(i)
	}
	w.space()
	w.b.WriteByte(']')
}

func (w *writer) message(m said) {
	members := map[string]func(){"role": func() { w.text(m.role) }}
	switch way := w.pick(4); {
	case m.text != "" && way == 0, m.role == "tool" && way == 0:
		members["content"] = func() {
			w.list(1, func(int) {
				w.object(map[string]func(){"type": func() { w.text("text") }, "text": func() { w.text(m.text) }})
			})
		}
	case m.text == "" && m.role == "assistant" && way == 1:
		members["content"] = func() { w.b.WriteString("null") }
	case m.text == "" && m.role == "assistant" && way == 2:
	default:
		members["content"] = func() { w.text(m.text) }
	}
	if len(m.calls) > 0 {
		members["tool_calls"] = func() { w.list(len(m.calls), func(i int) { w.call(m.calls[i]) }) }
	}
	if m.role == "tool" {
		members["tool_call_id"] = func() { w.text(m.answers) }
	}
	if w.pick(3) == 0 {
		members["refusal"] = func() { w.b.WriteString("null") }
		members["x_vendor"] = func() { w.b.WriteString(`{"role":"user","n":1.0}`) }
	}
	w.object(members)
}

func (w *writer) call(c toolcalls.AppCall) {
	w.object(map[string]func(){
		"id": func() { w.text(c.ID) }, "type": func() { w.text("function") },
		"function": func() {
			w.object(map[string]func(){"name": func() { w.text(c.Name) }, "arguments": func() { w.text(w.again(c.Arguments)) }})
		},
	})
}

// again returns arguments as a client that has decoded them may encode them.
func (w *writer) again(arguments string) string {
	if arguments == "" && w.pick(2) == 0 {
		return "{}"
	}
	var value any
	if json.Unmarshal([]byte(arguments), &value) != nil || w.pick(2) == 0 {
		return arguments
	}
	b, _ := json.MarshalIndent(value, "", strings.Repeat(" ", w.pick(3)))
	return string(b)
}

// request writes a chat request.
func request(t *rapid.T, list []said) []byte {
	w := &writer{t: t}
	w.object(map[string]func(){
		"model":    func() { w.text("m") },
		"messages": func() { w.list(len(list), func(i int) { w.message(list[i]) }) },
	})
	return []byte(w.b.String())
}
