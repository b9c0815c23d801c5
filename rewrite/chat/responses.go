package chat

import (
	"slices"
	"strings"
)

// A History says what the upstream holds of the conversation of a Responses request besides the
// request's own items, and what it keeps of the request; of a Messages request, the thread that it
// continues.
type History struct {
	Previous     string // previous_response_id, or previous_message_id of a thread
	PreviousAt   Span   // its value; zero if there is none
	Conversation string // id of the conversation
	Stored       bool   // store is not false
	Truncates    bool   // truncation is auto: the oldest items are dropped where the window is too small
}

// Keeps reports whether the upstream keeps the request's items for later turns.
func (h *History) Keeps() bool { return h.Stored || h.Conversation != "" }

// Continued reports whether the upstream holds earlier turns that the request does not repeat.
func (h *History) Continued() bool { return h.Previous != "" || h.Conversation != "" }

// ofResponses reads a member of a Responses request, and returns false if it has no value to read.
func (p *Parser) ofResponses(name string, k Kind) bool {
	h := &p.r.History
	switch {
	case name == "input" && k == KindString:
		p.r.list = p.value()
		if p.err == nil {
			p.r.kept = append(p.r.kept[:0], message{role: roleUser, kind: KindString, ambiguous: p.loneSurrogate >= p.r.list.Start, content: p.r.list})
			p.r.Messages = append(p.r.Messages[:0], p.r.list)
		}
	case name == "instructions" && (k == KindString || k == KindNull):
		p.r.operator = Member{Span: p.value(), Kind: k}
		p.operator = message{role: roleSystem, kind: KindString, ambiguous: p.garbledText(p.r.operator.Span), content: p.r.operator.Span}
	case name == "instructions":
		p.notChat(path{-1, -1, name}, "%s, not a string", k)
		p.value()
	case name == "text" && k == KindObject:
		p.formatIn("text.")
	case name == "previous_response_id" && k == KindString:
		h.PreviousAt = Span{Start: p.i}
		h.Previous = p.id()
		h.PreviousAt.End = p.i
	case name == "conversation" && k == KindString:
		h.Conversation = p.id()
	case name == "conversation" && k == KindObject:
		p.conversation()
	case (name == "previous_response_id" || name == "conversation") && k != KindNull:
		p.notChat(path{-1, -1, name}, "%s", k)
		p.value()
	case name == "store" && k == KindBool:
		h.Stored = p.b[p.i] == 't'
		p.value()
	case name == "truncation" && k == KindString:
		h.Truncates = p.id() == "auto"
	default:
		return false
	}
	return true
}

// id reads a string.
func (p *Parser) id() string {
	v, _ := p.str()
	if p.err != nil {
		return ""
	}
	return Unquote(v.Of(p.b))
}

// conversation reads the id in an object.
func (p *Parser) conversation() {
	level := p.keys.level()
	p.object(func(key Span, escaped bool) {
		name, _ := p.key(level, "conversation.", key, escaped, idKeys)
		if name == "id" && p.kind() == KindString {
			p.r.History.Conversation = p.id()
			return
		}
		p.value()
	})
	p.keys.leave(level)
}

// formatIn reads an object that may hold the format of the answer; at is its path with a dot.
func (p *Parser) formatIn(at string) {
	level := p.keys.level()
	p.object(func(key Span, escaped bool) {
		name, _ := p.key(level, at, key, escaped, textKeys)
		if name == "format" && p.kind() == KindObject {
			p.format(at + "format.")
			return
		}
		p.value()
	})
	p.keys.leave(level)
}

// The members of objects of a Responses request that are read.
var (
	itemKeys = []string{"role", "content", "type", "output", "id"}
	textKeys = []string{"format"}
	idKeys   = []string{"id"}
)

// An item is what is read of an element of input.
type item struct {
	message message
	output  message // the texts of a tool's output
	kind    string  // its type, "" if it has none
	types   int     // how often that is given
	roleEnd int     // end of the role; 0 without one
	hasID   bool
}

// item reads an element of input. A message has a role; items of all other types are counted, and
// the texts of tools' outputs are read as well.
func (p *Parser) item(n int) {
	if !p.describe && p.commonMessage() {
		return
	}
	if k := p.kind(); k != KindObject {
		p.notChat(path{n, -1, ""}, "%s, not an object", k)
		p.value()
		return
	}
	at := int32(len(p.r.Messages))
	it := item{message: message{n: at}, output: message{n: at}}
	shape, err, ambiguous, attachments := p.shape, p.keys.err, p.r.ambiguous, p.r.Attachments
	p.keys.quiet, p.keys.ambiguous = !p.describe, false
	level := p.keys.level()
	whole := p.object(func(key Span, escaped bool) {
		name, same := p.key(level, "input[].", key, escaped, itemKeys)
		p.itemMember(n, &it, name, same)
	})
	p.keys.leave(level)
	m := it.message
	m.ambiguous, p.keys.quiet = p.keys.ambiguous, false
	switch {
	case it.kind != "" && it.kind != "message": // it is passed on as it is
		p.shape, p.r.ambiguous = shape, ambiguous
		if !p.describe {
			p.keys.err = err
		}
		if it.output.kind == KindMissing {
			p.r.Attachments = attachments
		}
		it.output.ambiguous, m = m.ambiguous, it.output
	case it.roleEnd > 0:
		p.r.ambiguous = p.r.ambiguous || m.ambiguous
		if m.kind == KindMissing {
			m.content = Span{it.roleEnd, it.roleEnd}
		}
	case it.kind == "message":
		p.notChat(path{n, -1, "role"}, "missing")
	case !it.hasID: // with an id it is a reference to an item
		p.notChat(path{n, -1, "type"}, "missing")
	}
	if it.types > 1 {
		p.ambiguous(n, "type", "is repeated")
	}
	if m.role != roleOther || m.kind == KindString || m.parts.Start < m.parts.End {
		p.r.kept = append(p.r.kept, m)
	}
	if p.shape == nil { // a body with wrong types is not counted
		p.r.Messages = append(p.r.Messages, whole)
	}
}

// itemMember reads a member of an item. name is its key as in itemKeys, "" for others; same is
// false if the key differs from that in case.
func (p *Parser) itemMember(n int, it *item, name string, same bool) {
	switch k := p.kind(); {
	case name == "role" && !same:
		p.ambiguous(n, "role", "differs from role only in case")
		p.value()
	case name == "role" && it.roleEnd > 0:
		p.ambiguous(n, "role", "is repeated")
		p.value()
	case name == "role":
		p.role(n, &it.message)
		it.roleEnd = p.i
	case name == "type" && (!same || it.types > 0):
		it.types = 2
		p.value()
	case name == "type" && k == KindString:
		it.kind, it.types = p.id(), 1
	case name == "type" && k != KindNull:
		p.notChat(path{n, -1, name}, "%s, not a string", k)
		p.value()
	case name == "content" && same:
		p.content(n, &it.message)
	case name == "output" && same && (k == KindString || k == KindArray):
		p.content(n, &it.output)
	default:
		it.hasID = it.hasID || name == "id" && k == KindString
		p.value()
	}
}

// hasOperator reports whether instructions or system are the first of Messages.
func (r *Request) hasOperator() bool {
	return r.operator.Kind == KindString || r.operator.Kind == KindArray
}

// insertOperator puts the member instructions or system before all messages.
func (p *Parser) insertOperator() {
	for i := range p.r.kept {
		p.r.kept[i].n++
	}
	p.r.kept = slices.Insert(p.r.kept, 0, p.operator)
	p.r.Messages = slices.Insert(p.r.Messages, 0, p.r.operator.Span)
}

// garbledText reports whether the string that was just read has an escaped lone surrogate.
func (p *Parser) garbledText(at Span) bool { return p.loneSurrogate >= at.Start }

// items returns the elements of the list of messages, or the string that stands for it.
func (r *Request) items() []Span {
	if r.hasOperator() && len(r.Messages) > 0 {
		return r.Messages[1:]
	}
	return r.Messages
}

// HasReasoning reports whether the list of messages has items or blocks with reasoning.
func HasReasoning(r *Request) bool {
	switch r.API {
	case Responses:
		return slices.ContainsFunc(r.items(), func(at Span) bool { return r.listed(at) == "reasoning" })
	case Messages:
		return slices.ContainsFunc(r.items(), func(at Span) bool {
			return hasBlock(at.Of(r.Body), "thinking") || hasBlock(at.Of(r.Body), "redacted_thinking")
		})
	}
	return false
}

// listed returns the kind of an element of the list of messages as far as insertions depend on it:
// the role of a message, "reasoning", "call", "output", or "" for everything else.
func (r *Request) listed(element Span) (kind string) {
	if r.Body[element.Start] == '"' {
		return "user"
	}
	role := ""
	m := NewReader(element.Of(r.Body))
	m.Object(func(name string) {
		switch name {
		case "role":
			role = m.Text()
		case "type":
			kind = m.Text()
		default:
			m.Value()
		}
	})
	switch {
	case r.API == Completions && (role == "tool" || role == "function"):
		return "output"
	case r.API == Messages && role == "user" && hasBlock(element.Of(r.Body), "tool_result"):
		return "output"
	case r.API != Responses || kind == "" || kind == "message":
		return role
	case strings.HasSuffix(kind, "_output"):
		return "output"
	case strings.HasSuffix(kind, "_call"):
		return "call"
	case kind == "reasoning":
		return kind
	}
	return ""
}
