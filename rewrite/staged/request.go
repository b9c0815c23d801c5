package staged

import (
	"strings"

	"sidenote/rewrite/chat"
)

// A Request is a parsed chat request for a chain, shared by all stages. It must not be changed.
type Request struct {
	*chat.Request
	Limits   *chat.Limits // nil if invalid
	Question string       // text of the last user message; "" if the request does not end with one

	members   []member // members of the body's top object
	operators []operator
	asked     int // index of the message with the question; -1 if none

	system   chat.Span // instructions of a Responses request, or system of a Messages request; zero if it has none
	thinking thinking  // of a Messages request
}

// An operator is a system or developer message; of Messages, its content.
type operator struct {
	chat.Span
	role string // system or developer
}

// A member is a member of the body's top object.
type member struct {
	name  string
	kind  chat.Kind
	value []byte
}

// Read reads a request, which must be valid JSON.
func Read(req *chat.Request) *Request {
	r := &Request{Request: req, members: make([]member, 0, 8), asked: -1}
	if limits, err := chat.ReadLimits(req.Body); err == nil {
		r.Limits = limits
	}
	body := chat.NewReader(req.Body)
	body.Object(func(name string) {
		kind := body.Kind()
		r.members = append(r.members, member{name, kind, body.Value()})
		if req.API == chat.Messages && name == "thinking" {
			r.thinking = readThinking(r.members[len(r.members)-1].value)
		}
	})
	list := req.List()
	for n, span := range req.Messages {
		switch role := chat.RoleOf(req, n); role {
		case "system", "developer":
			if span.Start < list.Start || span.End > list.End { // beside the list
				r.system = span
				continue
			}
			if req.API == chat.Messages {
				span = contentOf(req, n)
			}
			r.operators = append(r.operators, operator{span, role})
		case "user":
			if r.asked = n; req.API == chat.Messages && req.HasBlock(n, "tool_result") {
				r.asked = -1
			}
		default: // only system and developer messages may follow the question
			r.asked = -1
		}
	}
	if r.asked >= 0 {
		r.Question = strings.TrimSpace(turnAt(req, r.asked).text)
	}
	return r
}
