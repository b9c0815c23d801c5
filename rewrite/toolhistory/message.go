package toolhistory

import (
	"encoding/json"

	"sidenote/rewrite/chat"
)

// A message is what counts of a message: decoded, whatever the form it was sent in.
type message struct {
	role    string
	content []part
	calls   []call
	answers string // tool_call_id
	unclear bool   // something of this stands twice, and parsers may differ on which one holds
}

// A part is one part of a content. Empty texts are none, and a string is one text.
type part struct{ kind, text string }

// A call is one element of tool_calls.
type call struct {
	at                  chat.Span // in the message
	id, name, arguments string
}

// The kind of parts that are texts, and the role of answers to calls.
const (
	kindText = "text"
	roleTool = "tool"
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
			r.Array(func(int) {
				at := r.Span()
				m.calls = append(m.calls, readCall(at.Of(raw), at))
			})
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

func readContent(r *chat.Reader) (content []part) {
	if r.Kind() != chat.KindArray {
		return appendText(nil, r.Text())
	}
	r.Array(func(int) {
		var p part
		r.Object(func(name string) {
			switch name {
			case "type":
				p.kind = r.Text()
			case "text":
				p.text = r.Text()
			default:
				r.Value()
			}
		})
		if p.kind == kindText {
			content = appendText(content, p.text)
		} else { // only its kind counts: SDKs fill in members of images
			content = append(content, part{kind: p.kind})
		}
	})
	return content
}

func appendText(content []part, text string) []part {
	if text == "" {
		return content
	}
	return append(content, part{kindText, text})
}

// readCall reads a call of a function or of a custom tool.
func readCall(raw []byte, at chat.Span) call {
	c := call{at: at}
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
					c.arguments = r.Text()
				default:
					r.Value()
				}
			})
		default:
			r.Value()
		}
	})
	return c
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
