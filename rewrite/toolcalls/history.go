// Package toolcalls adds tools to a chat request, and restores their calls and results in the
// history of a conversation whose client never saw them.
//
// A model may call Sidenote's and the application's tools in one message. The client gets only
// its own calls and sends them back with their results. The rest is a Turn, stored in a TurnStore
// under a TurnKey that can be computed from both requests: the one whose answer was the turn, and
// the one that continues it. If a turn is lost, the model may have to search again, but nothing
// becomes incorrect.
//
// It knows nothing of tenants or of what tools do.
package toolcalls

import (
	"crypto/sha256"

	"sidenote/rewrite/chat"
)

// A TurnKey identifies a turn of a conversation: a chain of SHA-256 over the client's messages up
// to the turn. Of each message it covers, decoded and with their lengths, the role, the texts,
// the kinds of other parts, the ids, names and arguments of calls, and the ids of those answered.
// So a client may encode the same values differently; if it changes one of them, the key changes.
type TurnKey [sha256.Size]byte

// turnSchema is the version of keys. Change it together with what they cover.
const turnSchema = "sidenote tool history 1"

// next returns the key after one more message. b is a buffer that it reuses.
func (k TurnKey) next(b []byte, m *message) (TurnKey, []byte) {
	b = append(b[:0], k[:]...)
	b = appendSizedTurn(b, m.role)
	b = appendSizedTurn(b, m.content)
	b = appendSizedTurn(b, m.called)
	b = appendSizedTurn(b, m.answers)
	return sha256.Sum256(b), b
}

// A History holds the earlier turns of a request that called tools.
type History struct {
	api   chat.API
	body  []byte
	turns []toolCallMessage
	end   TurnKey // key after all messages
}

// A toolCallMessage is an assistant message with tool calls, each of which is answered right after
// it. Of Responses it is the items from the model's first one to the last result.
type toolCallMessage struct {
	key     TurnKey
	message chat.Span
	calls   []call    // with spans in the body
	blocks  blockList // of Messages
}

// ReadHistory reads the messages of a client's request. It takes time linear in the body's length
// and never fails: malformed turns are not restored.
func ReadHistory(r *chat.Request) *History { return formOf(r.API).history(r) }

// A completionForm is the form of chat completions.
type completionForm struct{}

func (completionForm) history(r *chat.Request) *History {
	h := &History{body: r.Body, end: sha256.Sum256([]byte(turnSchema))}
	var b []byte
	var last toolCallMessage // if it has calls, its answers follow
	var answers pairing
	finish := func() { // no more answers can follow
		if len(last.calls) > 0 && answers.whole() {
			h.turns = append(h.turns, last)
		}
		last = toolCallMessage{}
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
			last = toolCallMessage{key: h.end, message: at, calls: m.calls}
		}
	}
	finish()
	return h
}

// Keys returns the keys of the turns that can be restored, oldest first.
func (h *History) Keys() []TurnKey {
	keys := make([]TurnKey, len(h.turns))
	for i := range h.turns {
		keys[i] = h.turns[i].key
	}
	return keys
}

// An AppCall is a call of an application's tool as sent to the client. The input of a custom tool
// is in Arguments.
type AppCall struct{ ID, Name, Arguments string }

// KeyOfAnswer returns the key under which the next request will look for the answer to this one.
// text and calls are those sent to the client.
func (h *History) KeyOfAnswer(text string, calls []AppCall) TurnKey {
	return formOf(h.api).answered(h.end, text, calls)
}

func (completionForm) answered(end TurnKey, text string, calls []AppCall) TurnKey {
	m := message{role: roleAssistant, content: appendPart(nil, kindText, text)}
	for _, c := range calls {
		m.called = appendCall(m.called, c.ID, c.Name, c.Arguments)
	}
	k, _ := end.next(nil, &m)
	return k
}
