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

// An itemForm is the form of Responses. Keys cover the messages that the model did not
// write, and the ids of the calls that have results; clients may send other items as references, or
// leave them out.
type itemForm struct{}

func (itemForm) history(r *chat.Request) *History {
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

func (itemForm) answered(end TurnKey, _ string, calls []AppCall) TurnKey {
	ids := make([]string, len(calls))
	for i := range calls {
		ids[i] = calls[i].ID
	}
	return end.answering(ids)
}

// check requires that each call has one result, and each result its call.
func (itemForm) check(t *Turn) error {
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

// fits requires that the ids of the calls differ from the client's.
func (itemForm) fits(t *Turn, at *toolCallMessage) bool {
	theirs := at.ids()
	return !slices.ContainsFunc(slices.Concat(t.Before, t.Results), func(raw json.RawMessage) bool { return theirs[readItem(raw).callID] })
}

func (itemForm) insertions(t *Turn, at *toolCallMessage) []Insertion {
	return completionForm{}.insertions(t, at)
}

func (itemForm) offer(r *OfferRequest, c *chat.Reader, name string, kind chat.Kind) bool {
	switch {
	case name == "top_logprobs":
		n := string(c.Value())
		r.Logprobs = n != "0" && n != "null"
	case name == "background" && kind == chat.KindBool:
		if string(c.Value()) == "true" {
			r.refuse(Background)
		}
	case name == "prompt" && kind == chat.KindObject:
		r.template = true
		c.Value()
	default:
		return false
	}
	return true
}

// nameOf reads the name beside the type.
func (itemForm) nameOf(tool []byte) (name string) {
	c := chat.NewReader(tool)
	c.Object(func(member string) {
		if member == "name" && c.Kind() == chat.KindString {
			name = c.Text()
			return
		}
		c.Value()
	})
	return name
}

func (itemForm) tool(t Tool) json.RawMessage {
	return encodeTools(struct {
		Type string `json:"type"`
		Tool
		Strict bool `json:"strict"` // false, as parameters may be omitted
	}{Type: "function", Tool: t})
}

func (itemForm) results(list []Result) (items []json.RawMessage) {
	for _, r := range list {
		items = append(items, encodeTools(struct {
			Type   string `json:"type"`
			ID     string `json:"call_id"`
			Output string `json:"output"`
		}{"function_call_output", r.ID, r.Content}))
	}
	return items
}

// turn leaves out what the client does not get of a last round without results: reasoning, which
// nothing follows.
func (f itemForm) turn(rounds, last []HistoryCall, results []Result) Turn {
	t := Turn{Before: jsonOf(rounds)}
	if len(results) > 0 {
		t.Results = append(jsonOf(last), f.results(results)...)
	}
	return t
}
