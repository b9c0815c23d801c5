package toolcalls

import (
	"encoding/binary"
	"encoding/json"

	"sidenote/rewrite/chat"
)

// A message holds the relevant values of a message, decoded, whatever its JSON form. It takes at
// most a few times the memory of the message.
type message struct {
	role    string
	content []byte // kind and text of each part, as written by appendPart
	called  []byte // each call, as written by appendCall; unparsed beyond maxCalls
	calls   []call // the same, up to maxCalls
	answers string // tool_call_id
	unclear bool   // a relevant member is duplicate, so parsers may differ, or there are too many calls
}

// A call is an element of tool_calls.
type call struct {
	at       chat.Span // in the message
	id, name string
}

// maxCalls is the maximum number of calls in a message that can be restored. Upstreams allow
// fewer.
const maxCalls = 128

// The kind of text parts, and the roles in tool calls.
const (
	kindText      = "text"
	roleAssistant = "assistant"
	roleTool      = "tool"
	roleUser      = "user"
)

// readMessage reads a message. Values of the wrong type are treated as missing.
func readMessage(raw []byte) message {
	var m message
	r := chat.NewReader(raw)
	seen := map[string]bool{}
	r.Object(func(name string) {
		m.unclear = m.unclear || seen[name]
		switch name {
		case "role":
			m.role = r.Text()
		case "content":
			m.content = readContent(&r)
		case "tool_calls":
			r.Array(func(int) { m.addCall(raw, r.Span()) })
		case "tool_call_id":
			m.answers = r.Text()
		default:
			r.Value()
			return
		}
		seen[name] = true
	})
	return m
}

// addCall reads the call at the given span of the message.
func (m *message) addCall(raw []byte, at chat.Span) {
	if len(m.calls) == maxCalls {
		m.unclear = true
		m.called = appendSizedTurn(m.called, at.Of(raw))
		return
	}
	c, arguments := readCall(at.Of(raw))
	c.at = at
	m.calls = append(m.calls, c)
	m.called = appendCall(m.called, c.id, c.name, arguments)
}

func readContent(r *chat.Reader) (content []byte) {
	if r.Kind() != chat.KindArray {
		return appendPart(nil, kindText, r.Text())
	}
	r.Array(func(int) {
		var kind, text string
		r.Object(func(name string) {
			switch name {
			case "type":
				kind = r.Text()
			case "text":
				text = r.Text()
			default:
				r.Value()
			}
		})
		if kind == "input_text" || kind == "output_text" { // of Responses
			kind = kindText
		}
		content = appendPart(content, kind, text)
	})
	return content
}

// appendPart appends a part of a content. Empty texts are omitted. Of other parts only the kind
// is used, because SDKs fill in members of images.
func appendPart(b []byte, kind, text string) []byte {
	switch {
	case kind != kindText:
		return appendSizedTurn(appendSizedTurn(b, kind), "")
	case text == "":
		return b
	}
	return appendSizedTurn(appendSizedTurn(b, kind), text)
}

// appendCall appends a call.
func appendCall(b []byte, id, name, arguments string) []byte {
	return appendSizedTurn(appendSizedTurn(appendSizedTurn(b, id), name), canonical(arguments))
}

// appendSizedTurn appends a text preceded by its length.
func appendSizedTurn[text string | []byte](b []byte, s text) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// readCall reads a call of a function, or of a custom tool, whose input becomes the arguments.
func readCall(raw []byte) (c call, arguments string) {
	r := chat.NewReader(raw)
	r.Object(func(name string) {
		switch name {
		case "id":
			c.id = r.Text()
		case "function", "custom":
			r.Object(func(name string) {
				switch name {
				case "name":
					c.name = r.Text()
				case "arguments", "input":
					arguments = r.Text()
				default:
					r.Value()
				}
			})
		default:
			r.Value()
		}
	})
	return c, arguments
}

// maxCanonical is the length above which arguments are compared as text: decoded they take many
// times their memory.
const maxCanonical = 64 << 10

// canonical returns arguments in a canonical form, equal for all JSON of the same values. Empty
// arguments become the empty object, as which some clients send them back.
func canonical(arguments string) string {
	if arguments == "" {
		return "{}"
	}
	var values any
	if len(arguments) > maxCanonical || json.Unmarshal([]byte(arguments), &values) != nil {
		return arguments
	}
	b, err := json.Marshal(values)
	if err != nil {
		return arguments
	}
	return string(b)
}

// A pairing checks that each call of a message is answered once, right after it.
type pairing struct {
	waiting map[string]bool // by id; false once answered
	left    int
	broken  bool
}

// pair begins a pairing for a message with calls. Calls without ids, or several with the same id,
// cannot all be answered.
func pair(calls []call) pairing {
	p := pairing{waiting: make(map[string]bool, len(calls)), left: len(calls)}
	for i := range calls {
		id := calls[i].id
		p.broken = p.broken || id == ""
		p.waiting[id] = true
	}
	return p
}

// answer records the next answer.
func (p *pairing) answer(id string) {
	if !p.waiting[id] {
		p.broken = true
		return
	}
	p.waiting[id] = false
	p.left--
}

// whole reports whether every call was answered.
func (p *pairing) whole() bool { return !p.broken && p.left == 0 }
