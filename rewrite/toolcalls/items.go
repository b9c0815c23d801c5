package toolcalls

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"sidenote/rewrite/chat"
)

// itemSchema is the version of the keys of Responses requests. Change it together with what they
// cover.
const itemSchema = "sidenote item history 1"

// An item is what is read of an element of input.
type item struct {
	kind, role string
	content    []byte // as in a message
	callID     string
}

// readItem reads an element of input, or a string that stands for a message.
func readItem(raw []byte) (i item) {
	r := chat.NewReader(raw)
	if r.Kind() == chat.KindString {
		return item{role: roleUser, content: appendPart(nil, kindText, r.Text())}
	}
	r.Object(func(name string) {
		switch name {
		case "type":
			i.kind = r.Text()
		case "role":
			i.role = r.Text()
		case "call_id":
			i.callID = r.Text()
		case "content":
			i.content = readContent(&r)
		default:
			r.Value()
		}
	})
	return i
}

// isMessage reports whether the item is a message that the model did not write.
func (i *item) isMessage() bool {
	return (i.kind == "" || i.kind == "message") && i.role != "" && i.role != roleAssistant
}

func (i *item) isResult() bool { return strings.HasSuffix(i.kind, "_output") }

// readItems reads the items of a Responses request. Keys cover the messages that the model did not
// write, and the ids of the calls that have results; clients may send other items as references, or
// leave them out.
func readItems(r *chat.Request) *History {
	h := &History{api: r.API, body: r.Body, end: sha256.Sum256([]byte(itemSchema))}
	var b []byte
	var turn toolCallMessage // begins with the model's first item, if it has an end
	finish := func() {
		if len(turn.calls) > 0 {
			ids := make([]string, len(turn.calls))
			for i := range turn.calls {
				ids[i] = turn.calls[i].id
			}
			turn.key = h.end.answering(ids)
			h.end = turn.key
			if len(turn.calls) <= maxCalls {
				h.turns = append(h.turns, turn)
			}
		}
		turn = toolCallMessage{}
	}
	list := r.List()
	for _, at := range r.Messages {
		if at.Start < list.Start || at.End > list.End {
			continue // instructions, which differ from turn to turn
		}
		i := readItem(at.Of(r.Body))
		switch {
		case i.isMessage():
			finish()
			h.end, b = h.end.next(b, &message{role: i.role, content: i.content})
		case i.isResult():
			if turn.message.End == 0 {
				turn.message = at
			}
			turn.message.End = at.End
			turn.calls = append(turn.calls, call{at: at, id: i.callID})
		default:
			if len(turn.calls) > 0 {
				finish()
			}
			if turn.message.End == 0 {
				turn.message = at
			}
		}
	}
	finish()
	return h
}

// answering returns the key after results of calls with these ids, in any order.
func (k TurnKey) answering(ids []string) TurnKey {
	m := message{role: roleTool}
	for _, id := range slices.Sorted(slices.Values(ids)) {
		m.called = appendSizedTurn(m.called, id)
	}
	k, _ = k.next(nil, &m)
	return k
}

// checkItems is check for a turn of Responses: each call has one result, and each result its call.
func (t *Turn) checkItems() error {
	if len(t.Before)+len(t.Results) == 0 {
		return errEmpty
	}
	if len(t.Calls) > 0 {
		return errRules
	}
	answers := pairing{waiting: map[string]bool{}}
	for _, raw := range slices.Concat(t.Before, t.Results) {
		if !object(raw) {
			return errJSON
		}
		switch i := readItem(raw); {
		case i.isResult():
			answers.answer(i.callID)
		case i.isMessage():
			return errRules
		case strings.HasSuffix(i.kind, "_call") && i.callID != "":
			_, twice := answers.waiting[i.callID]
			answers.broken = answers.broken || twice
			answers.waiting[i.callID] = true
			answers.left++
		}
	}
	if !answers.whole() {
		return errRules
	}
	return nil
}

// fitsItems reports whether the ids of a valid turn's calls differ from the client's.
func (t *Turn) fitsItems(at *toolCallMessage) bool {
	theirs := make(map[string]bool, len(at.calls))
	for i := range at.calls {
		theirs[at.calls[i].id] = true
	}
	return !slices.ContainsFunc(slices.Concat(t.Before, t.Results), func(raw json.RawMessage) bool { return theirs[readItem(raw).callID] })
}
