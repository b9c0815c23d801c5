// Package toolcalls adds tools to a chat request, and puts their calls and results back into the
// history of a conversation whose client never saw them.
//
// A model may call our tools and the app's in one message. The client gets only its own calls and
// sends those back with their answers. The rest is a Turn, kept by a TurnStore under a TurnKey that
// both requests have: the one whose answer the turn was, and the one that brings it back. Losing a
// turn costs a question that the model asks again, never correctness.
//
// It knows nothing of tenants or of what tools do.
package toolcalls

import (
	"crypto/sha256"

	"sidenote/rewrite/chat"
)

// A TurnKey identifies a turn of a conversation: a chain of SHA-256 over its messages up to the turn, as the
// client has them. Of each message count, decoded and with their lengths, its role, its texts, the kinds
// of its other parts, ids, names and arguments of its calls, and which call it answers. So a
// client may write the same values in another way; where it changes one of them, the key is
// another.
type TurnKey [sha256.Size]byte

// turnSchema is the version of keys: it changes with what counts.
const turnSchema = "sidenote tool history 1"

// next returns the key behind one more message. b is memory for it.
func (k TurnKey) next(b []byte, m *message) (TurnKey, []byte) {
	b = append(b[:0], k[:]...)
	b = appendSizedTurn(b, m.role)
	b = appendSizedTurn(b, m.content)
	b = appendSizedTurn(b, m.called)
	b = appendSizedTurn(b, m.answers)
	return sha256.Sum256(b), b
}

// A History is what a request tells of earlier turns that called tools.
type History struct {
	body  []byte
	turns []calling
	end   TurnKey // of all messages
}

// A calling is an assistant message that calls tools, each of which is answered right behind it.
type calling struct {
	key     TurnKey
	message chat.Span
	calls   []call // at places in the body
}

// ReadHistory reads the messages of a request as the client sent it. It takes time linear in the
// body's length and never fails: what is not as it should be is no turn that may be restored.
func ReadHistory(r *chat.Request) *History {
	h := &History{body: r.Body, end: sha256.Sum256([]byte(turnSchema))}
	var b []byte
	var last calling // whose answers come next, if it has calls
	var answers pairing
	finish := func() { // more answers cannot come
		if len(last.calls) > 0 && answers.whole() {
			h.turns = append(h.turns, last)
		}
		last = calling{}
	}
	for _, at := range r.Messages {
		m := readMessage(at.Of(r.Body))
		h.end, b = h.end.next(b, &m)
		if m.role == roleTool {
			answers.answer(m.answers)
			continue
		}
		finish()
		answers = pair(m.calls)
		if m.role == roleAssistant && !m.unclear {
			for i := range m.calls {
				m.calls[i].at.Start += at.Start
				m.calls[i].at.End += at.Start
			}
			last = calling{key: h.end, message: at, calls: m.calls}
		}
	}
	finish()
	return h
}

// Keys returns the keys of the turns that may be restored, oldest first.
func (h *History) Keys() []TurnKey {
	keys := make([]TurnKey, len(h.turns))
	for i := range h.turns {
		keys[i] = h.turns[i].key
	}
	return keys
}

// An AppCall is a call of one of the app's tools, as the client gets it: of a function, or of a
// custom tool, whose input stands in Arguments.
type AppCall struct{ ID, Name, Arguments string }

// KeyOfAnswer returns the key that the answer to this request has in the next one: of a message
// with the text and the calls that the client gets.
func (h *History) KeyOfAnswer(text string, calls []AppCall) TurnKey {
	m := message{role: roleAssistant, content: appendPart(nil, kindText, text)}
	for _, c := range calls {
		m.called = appendCall(m.called, c.ID, c.Name, c.Arguments)
	}
	k, _ := h.end.next(nil, &m)
	return k
}
