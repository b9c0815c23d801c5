package toolcalls

import (
	"encoding/binary"
	"encoding/json"

	"sidenote/rewrite/chat"
)

// A message is what counts of a message: decoded, whatever the form it was sent in. It takes a few
// times the memory of the message at most, whatever that holds.
type message struct {
	role    string
	content []byte // kind and text of each part, by appendPart
	called  []byte // each call, by appendCall; beyond maxCalls as it was sent
	calls   []call // the same, up to maxCalls
	answers string // tool_call_id
	unclear bool   // something of this stands twice, and parsers may differ on which one holds; or there are more calls
}

// A call is one element of tool_calls.
type call struct {
	at       chat.Span // in the message
	id, name string
}

// maxCalls is how many calls a message has at most that is put right again. Upstreams allow fewer.
const maxCalls = 128

// The kind of parts that are texts, and the roles of those who call and who answer.
const (
	kindText      = "text"
	roleAssistant = "assistant"
	roleTool      = "tool"
	roleUser      = "user"
)

// readMessage reads a message. What has not the type that it should have is not there.
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

// addCall reads the next call, at a place in the message.
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
		content = appendPart(content, kind, text)
	})
	return content
}

// appendPart appends a part of a content. An empty text is none. Of other parts only the kind counts,
// because SDKs fill in members of images.
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

// appendSizedTurn appends a text behind its length.
func appendSizedTurn[text string | []byte](b []byte, s text) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// readCall reads a call of a function or of a custom tool, whose input is its arguments.
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

// maxCanonical is the length from which arguments count as the text they are: decoded they take
// many times their memory.
const maxCanonical = 64 << 10

// canonical returns arguments in the one form that all JSON of the same values has. No
// arguments are the empty object, as which some clients send them back.
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

// A pairing follows whether each call of a message is answered once, right behind it.
type pairing struct {
	waiting map[string]bool // by id; false once it is answered
	left    int
	broken  bool
}

// pair begins behind a message that calls. Calls without ids cannot be answered, and calls of one id
// not each of them.
func pair(calls []call) pairing {
	p := pairing{waiting: make(map[string]bool, len(calls)), left: len(calls)}
	for i := range calls {
		id := calls[i].id
		p.broken = p.broken || id == ""
		p.waiting[id] = true
	}
	return p
}

// answer takes the next answer.
func (p *pairing) answer(id string) {
	if !p.waiting[id] {
		p.broken = true
		return
	}
	p.waiting[id] = false
	p.left--
}

// whole tells whether all is answered.
func (p *pairing) whole() bool { return !p.broken && p.left == 0 }
