package staged

import (
	"strings"

	"sidenote/rewrite/chat"
)

// A Request is a chat as a chain reads it, once for all stages. Nobody changes it.
type Request struct {
	*chat.Request
	Limits   *chat.Limits // nil: they are none that a server takes
	Question string       // the text of the user's message that is to be answered; "" if there is none

	members   []member // of the body
	operators []operator
	asked     int // the message that has the question; -1 if there is none
}

// An operator is a message of the application's own.
type operator struct {
	chat.Span
	role string // system or developer
}

// A member is one of the body's top object.
type member struct {
	name  string
	kind  chat.Kind
	value []byte
}

// Read reads a request, which is sound JSON.
func Read(req *chat.Request) *Request {
	r := &Request{Request: req, members: make([]member, 0, 8), asked: -1}
	if limits, err := chat.ReadLimits(req.Body); err == nil {
		r.Limits = limits
	}
	body := chat.NewReader(req.Body)
	body.Object(func(name string) {
		kind := body.Kind()
		r.members = append(r.members, member{name, kind, body.Value()})
	})
	for n, span := range req.Messages {
		switch role := chat.RoleOf(req, n); role {
		case "system", "developer":
			r.operators = append(r.operators, operator{span, role})
		case "user":
			r.asked = n
		default: // only the application's own messages may follow the question
			r.asked = -1
		}
	}
	if r.asked >= 0 {
		r.Question = strings.TrimSpace(turnAt(req, r.asked).text)
	}
	return r
}
