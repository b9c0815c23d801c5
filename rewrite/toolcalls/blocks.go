package toolcalls

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"sidenote/rewrite/chat"
)

// blockSchema is the version of the keys of Messages requests. Change it together with what they
// cover.
const blockSchema = "sidenote block history 1"

// A blockForm is the form of Messages. Calls are content blocks of the assistant's messages, and
// their results are the first blocks of the user message after that. Of the assistant's messages
// keys cover the text and the calls only, as clients may join texts and leave out other blocks.
type blockForm struct{}

// The types of content blocks in tool calls.
const (
	kindToolUse    = "tool_use"
	kindToolResult = "tool_result"
)

// maxBlocks is the maximum number of blocks in a message that can be restored.
const maxBlocks = 1024

// A block is what is read of a content block.
type block struct {
	kind     string
	id, name string // of a call; of a result the id is that of its call
	text     string
	input    []byte // of a call
	content  []byte // of a result, as readContent returns it
}

func readBlock(raw []byte) (b block) {
	r := chat.NewReader(raw)
	use := ""
	r.Object(func(name string) {
		switch name {
		case "type":
			b.kind = r.Text()
		case "id":
			b.id = r.Text()
		case "tool_use_id":
			use = r.Text()
		case "name":
			b.name = r.Text()
		case "text":
			b.text = r.Text()
		case "input":
			b.input = r.Value()
		case "content":
			b.content = readContent(&r)
		default:
			r.Value()
		}
	})
	if b.kind == kindToolResult {
		b.id = use
	}
	return b
}

// thinks reports whether the block is the model's thinking.
func (b *block) thinks() bool { return b.kind == "thinking" || b.kind == "redacted_thinking" }

// optional reports whether clients may leave out the block.
func (b *block) optional() bool { return b.thinks() || b.kind == kindText && b.text == "" }

// A blockList holds the blocks of an assistant message and where the results of its calls are.
type blockList struct {
	list     []blockAt
	results  int  // offset of the first block of the message with the results
	roleLast bool // the role comes after the content
}

// A blockAt is the position of a block.
type blockAt struct {
	at             chat.Span
	optional, call bool
}

// A blockMessage is a message of a Messages request.
type blockMessage struct {
	message
	blockList
	answered []string // ids of the calls whose results it has
	first    int      // offset of its first block; 0 without one
	others   bool     // it has blocks other than results
}

// readBlocks reads a message.
func readBlocks(raw []byte) (m blockMessage) {
	r := chat.NewReader(raw)
	seen := map[string]bool{}
	var text []byte // of the assistant
	var parts []byte
	one := func(at chat.Span) {
		b := readBlock(at.Of(raw))
		if m.first == 0 {
			m.first = at.Start
		}
		m.others = m.others || b.kind != kindToolResult
		if len(m.list) < maxBlocks {
			m.list = append(m.list, blockAt{at: at, optional: b.optional(), call: b.kind == kindToolUse})
		} else {
			m.unclear = true
		}
		switch b.kind {
		case kindText:
			text = append(text, b.text...)
			parts = appendPart(parts, b.kind, b.text)
		case kindToolUse:
			if len(m.calls) == maxCalls {
				m.unclear = true
			} else {
				m.calls = append(m.calls, call{at: at, id: b.id, name: b.name})
			}
			m.called = appendCall(m.called, b.id, b.name, string(b.input))
		case kindToolResult:
			if len(m.answered) == maxCalls {
				m.unclear = true
			} else {
				m.answered = append(m.answered, b.id)
			}
			parts = appendSizedTurn(appendSizedTurn(appendSizedTurn(parts, b.kind), b.id), b.content)
		default:
			parts = appendPart(parts, b.kind, "")
		}
	}
	r.Object(func(name string) {
		m.unclear = m.unclear || seen[name]
		switch {
		case name == "role":
			m.role = r.Text()
			m.roleLast = seen["content"]
		case name == "content" && r.Kind() == chat.KindArray:
			r.Array(func(int) { one(r.Span()) })
		case name == "content":
			s := r.Text()
			text, parts = append(text, s...), appendPart(parts, kindText, s)
		default:
			r.Value()
			return
		}
		seen[name] = true
	})
	if m.content = parts; m.role == roleAssistant {
		m.content = appendPart(nil, kindText, string(text))
	}
	return m
}

func (blockForm) history(r *chat.Request) *History {
	h := &History{api: r.API, body: r.Body, end: sha256.Sum256([]byte(blockSchema))}
	var b []byte
	var last toolCallMessage // if it has calls, the next message has their results
	list := r.List()
	for _, at := range r.Messages {
		if at.Start < list.Start || at.End > list.End {
			continue // the member system, which may differ from turn to turn
		}
		m := readBlocks(at.Of(r.Body))
		h.end, b = h.end.next(b, &m.message)
		if len(last.calls) > 0 && m.role == roleUser && !m.unclear && answersAll(last.calls, m.answered) {
			last.blocks.results = at.Start + m.first
			h.turns = append(h.turns, last)
		}
		last = toolCallMessage{}
		if m.role == roleAssistant && !m.unclear && len(m.calls) > 0 {
			for i := range m.list {
				m.list[i].at = shifted(m.list[i].at, at.Start)
			}
			for i := range m.calls {
				m.calls[i].at = shifted(m.calls[i].at, at.Start)
			}
			last = toolCallMessage{key: h.end, message: at, calls: m.calls, blocks: m.blockList}
		}
	}
	return h
}

func shifted(at chat.Span, by int) chat.Span {
	return chat.Span{Start: at.Start + by, End: at.End + by}
}

// answersAll reports whether ids are those of calls, each once.
func answersAll(calls []call, ids []string) bool {
	answers := pair(calls)
	for _, id := range ids {
		answers.answer(id)
	}
	return answers.whole()
}

func (blockForm) answered(end TurnKey, text string, calls []AppCall) TurnKey {
	m := message{role: roleAssistant, content: appendPart(nil, kindText, text)}
	for _, c := range calls {
		m.called = appendCall(m.called, c.ID, c.Name, c.Arguments)
	}
	k, _ := end.next(nil, &m)
	return k
}

// isMessage reports whether it is the message with the results of a round.
func (c *HistoryCall) isMessage() bool {
	r := chat.NewReader(c.JSON)
	found := false
	r.Object(func(name string) {
		found = found || name == "role"
		r.Value()
	})
	return found
}

// precedes reports whether c may come before d.
func (c *HistoryCall) precedes(d *HistoryCall) bool {
	return c.At < d.At || c.At == d.At && (!c.AfterThinking || d.AfterThinking)
}

// check requires that the calls of each round are answered: in the message after their round, which
// follows a block at the same place, or of the last round in Results.
func (blockForm) check(t *Turn) error {
	if len(t.Calls) == 0 {
		return errEmpty
	}
	if len(t.Before) > 0 || t.Calls[0].At < 0 {
		return errRules
	}
	var calls []call // of the round
	ids := map[string]bool{}
	for i := range t.Calls {
		c := &t.Calls[i]
		if !object(c.JSON) {
			return errJSON
		}
		if i > 0 && !t.Calls[i-1].precedes(c) {
			return errOrder
		}
		if c.isMessage() {
			before := HistoryCall{At: -1}
			if i > 0 && !t.Calls[i-1].isMessage() {
				before = t.Calls[i-1]
			}
			m := readBlocks(c.JSON)
			if !c.precedes(&before) || m.role != roleUser || m.unclear || m.others || len(calls) == 0 || !answersAll(calls, m.answered) {
				return errRules
			}
			calls = nil
			continue
		}
		switch b := readBlock(c.JSON); b.kind {
		case "", kindToolResult:
			return errRules
		case kindToolUse:
			if b.name == "" || ids[b.id] {
				return errRules
			}
			ids[b.id] = true
			calls = append(calls, call{id: b.id, name: b.name})
		}
	}
	var answered []string
	for _, raw := range t.Results {
		if !object(raw) {
			return errJSON
		}
		b := readBlock(raw)
		if b.kind != kindToolResult {
			return errRules
		}
		answered = append(answered, b.id)
	}
	if !answersAll(calls, answered) {
		return errRules
	}
	return nil
}

// fits requires that the positions exist, that the client's calls are in the last round, and that
// ids differ.
func (blockForm) fits(t *Turn, at *toolCallMessage) bool {
	blocks, before := 0, -1 // blocks that clients do not leave out, and those before the first call
	for i := range at.blocks.list {
		b := &at.blocks.list[i]
		if b.call && before < 0 {
			before = blocks
		}
		if !b.optional {
			blocks++
		}
	}
	theirs := at.ids()
	for i := range t.Calls {
		c := &t.Calls[i]
		switch {
		case c.At > blocks, c.isMessage() && c.At > before:
			return false
		case theirs[readBlock(c.JSON).id]:
			return false
		}
	}
	return true
}

// place returns the offset for a block at a position; end reports that it is the end of the list.
func (l *blockList) place(c *HistoryCall) (offset int, end bool) {
	blocks := 0
	for i := range l.list {
		b := &l.list[i]
		if blocks == c.At && !(c.AfterThinking && b.optional) {
			return b.at.Start, false
		}
		if !b.optional {
			blocks++
		}
	}
	return l.list[len(l.list)-1].at.End, true
}

func (blockForm) insertions(t *Turn, at *toolCallMessage) []Insertion {
	var list insertions
	parting, opening := []byte(`]},`), []byte(`,{"role":"assistant","content":[`)
	if at.blocks.roleLast {
		parting, opening = []byte(`],"role":"assistant"},`), []byte(`,{"content":[`)
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		offset, end := at.blocks.place(c)
		switch {
		case c.isMessage(): // in place of the comma after the block before it
			last := &list[len(list)-1]
			last.Text = slices.Concat(last.Text[:len(last.Text)-1], parting, c.JSON, opening)
		case end:
			list.add(offset, elementBehind(c.JSON))
		default:
			list.add(offset, elementBefore(c.JSON))
		}
	}
	for _, raw := range t.Results {
		list.add(at.blocks.results, elementBefore(raw))
	}
	return list
}

func (blockForm) offer(r *OfferRequest, c *chat.Reader, name string, kind chat.Kind) bool {
	start := c.Offset()
	switch {
	case name == "tool_choice" && kind == chat.KindObject:
		choice := ""
		c.Object(func(member string) {
			if member == "type" {
				choice = c.Text()
				return
			}
			c.Value()
		})
		r.choose(choice, "auto", "any")
		r.unfit = r.unfit || choice == ""
	case name == "tool_choice" && kind == chat.KindNull:
		at := c.Value()
		r.choice = chat.Span{Start: start, End: start + len(at)}
	case name == "output_config" && kind == chat.KindObject:
		r.Effort = effortIn(c)
	case name == "thread" && kind == chat.KindObject:
		r.refuse(Stored)
		c.Value()
	default:
		return false
	}
	return true
}

func (blockForm) nameOf(tool []byte) string { return itemForm{}.nameOf(tool) }

func (blockForm) tool(t Tool) json.RawMessage {
	return encodeTools(struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"input_schema"`
	}{t.Name, t.Description, t.Parameters})
}

// results returns one message, as the results of a turn must be together.
func (f blockForm) results(list []Result) []json.RawMessage {
	content := bytes.Join(Unraw(f.resultBlocks(list)), []byte(","))
	return []json.RawMessage{slices.Concat([]byte(`{"role":"user","content":[`), content, []byte("]}"))}
}

func (blockForm) resultBlocks(list []Result) (blocks []json.RawMessage) {
	for _, r := range list {
		blocks = append(blocks, encodeTools(struct {
			Type    string `json:"type"`
			ID      string `json:"tool_use_id"`
			Content string `json:"content"`
		}{kindToolResult, r.ID, r.Content}))
	}
	return blocks
}

func (f blockForm) turn(rounds, last []HistoryCall, results []Result) Turn {
	return Turn{Calls: slices.Concat(rounds, last), Results: f.resultBlocks(results)}
}
