package answer

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A messagesLoop is the Loop of the Messages API. The client gets one message: the content blocks of
// all rounds except calls of ours, with indexes without gaps.
//
// Anthropic refuses a message with the thinking of several answers in it, and may refuse one that
// calls tools but does not begin with thinking. So the client gets the thinking of the first round
// that has any, even if a call of ours is all that follows it, and none of later rounds. Thinking is
// signed before anything follows it, so its signature stays valid.
type messagesLoop struct {
	loopRounds
	shown   [][]byte        // blocks of whole answers that the client got in previous rounds
	text    strings.Builder // text that the client got in previous rounds
	blocks  int             // blocks that the client got in previous rounds, as LoopPart counts them
	thought bool            // the client got thinking in a previous round

	started bool // the client got the event that begins the message
	index   int  // of the client's next block
	edited  bool // something was left out, so that the upstream's indexes no longer hold

	now messagesRound
}

// A messagesRound is the state of one round.
type messagesRound struct {
	blocks []*heldBlock
	at     map[string]*heldBlock // the last block of each index
	passed []*heldBlock          // those that the client got, in order
	held   []blockEvent          // events and, of a whole answer, blocks that the client gets only if no other round follows
	tail   []blockEvent          // events from the end of the content on
	ours   bool                  // there is a call of ours
	theirs bool                  // the client gets a call, so no other round follows

	message object // a whole answer
	raw     []byte // the same, unparsed
	usage   []byte
	stop    string // the stop reason
	ended   bool   // there was an end
	failed  bool   // an event had an error
	said    bool   // see HasOutput
	begun   bool   // an event was read
	open    bool   // the last event was incomplete, so nothing may follow
}

// A heldBlock is a content block of a message while its pieces arrive.
type heldBlock struct {
	index int    // index for the client; -1 if it has got nothing of it
	kind  string // its type
	begun object // as the stream began it

	pieces    []*extra
	citations [][]byte
	input     strings.Builder // of a call

	raw  []byte // the block, of a whole answer
	ours bool   // a call of ours
	left bool   // thinking that is left out
}

// The types of blocks that are read.
const (
	blockText     = "text"
	blockCall     = "tool_use"
	blockThinking = "thinking"
	blockRedacted = "redacted_thinking"
)

// pauseTurn is the finish of an answer that the client continues by sending it back.
const pauseTurn = "pause_turn"

// Begin implements Loop.
func (l *messagesLoop) Begin(last bool) {
	l.begin(last, l.now.usage)
	for _, b := range l.now.passed {
		if b.raw != nil {
			l.shown = append(l.shown, b.raw)
		}
		l.text.WriteString(b.text())
		l.thought = l.thought || b.thinks()
		if b.counts() {
			l.blocks++
		}
	}
	l.edited = l.index > 0 || l.started
	l.now = messagesRound{}
}

// ClientText implements Loop.
func (l *messagesLoop) ClientText() string {
	var text strings.Builder
	text.WriteString(l.text.String())
	for _, b := range l.now.passed {
		text.WriteString(b.text())
	}
	return text.String()
}

// Responses implements Loop.
func (l *messagesLoop) Responses() (client, last string) { return "", "" }

// HasOutput implements Loop.
func (l *messagesLoop) HasOutput() bool { return l.now.said }

// DiscardRound implements Loop.
func (l *messagesLoop) DiscardRound() {
	l.started, l.index, l.edited = false, 0, false
	l.now = messagesRound{usage: l.now.usage}
}

// add returns a new block.
func (n *messagesRound) add(number string, raw []byte) *heldBlock {
	b := &heldBlock{index: -1}
	b.begun, _ = objectOf(clone(raw))
	b.kind = b.begun.text("type")
	n.blocks = append(n.blocks, b)
	if n.at == nil {
		n.at = map[string]*heldBlock{}
	}
	n.at[number] = b
	return b
}

// decide decides what becomes of a new block.
func (l *messagesLoop) decide(b *heldBlock) {
	n := &l.now
	b.ours = b.kind == blockCall && l.rules.Ours(b.begun.text("name"))
	b.left = l.thought && b.thinks()
	n.ours = n.ours || b.ours
	n.theirs = n.theirs || b.kind == blockCall && !b.ours
}

// holds reports whether the client gets a block that is not left out only later, if at all.
func (l *messagesLoop) holds(b *heldBlock) bool {
	return l.hides() && !l.now.theirs && b.index < 0
}

// show adds a block to those that the client gets. number is the upstream's index.
func (l *messagesLoop) show(b *heldBlock, number string) {
	if b.index >= 0 {
		return
	}
	b.index = l.index
	if at, err := strconv.Atoi(number); err == nil && !l.edited {
		b.index = at
	}
	l.index = max(l.index, b.index) + 1
	l.now.passed = append(l.now.passed, b)
}

func (b *heldBlock) thinks() bool { return b.kind == blockThinking || b.kind == blockRedacted }

// counts reports whether LoopPart counts the block.
func (b *heldBlock) counts() bool {
	return !b.thinks() && (b.kind != blockText || b.text() != "")
}

// text returns the text of a block of text.
func (b *heldBlock) text() string {
	if b.kind != blockText {
		return ""
	}
	return b.string("text")
}

// string returns a string member with all of its pieces.
func (b *heldBlock) string(name string) string {
	for _, p := range b.pieces {
		if p.name == name {
			return p.text.String()
		}
	}
	return b.begun.text(name)
}

// says reports whether the block is output of the model other than white space.
func (b *heldBlock) says() bool {
	switch b.kind {
	case "":
		return false
	case blockText, blockThinking:
		return strings.TrimSpace(b.string(b.kind)) != "" // the text is in the member of that name
	}
	return true
}

// join appends a delta to the block and returns the number of bytes kept.
func (b *heldBlock) join(delta object) (kept int) {
	for _, m := range delta {
		switch {
		case m.name == "type" || string(m.value) == "null":
		case m.name == "partial_json":
			piece := textOf(m.value)
			b.input.WriteString(piece)
			kept += len(piece)
		case m.name == "citation":
			kept += len(m.value)
			b.citations = append(b.citations, clone(m.value))
		case m.value[0] == '"':
			piece := textOf(m.value)
			b.piece(m.name).text.WriteString(piece)
			kept += len(piece)
		default:
			b.piece(m.name).raw = clone(m.value)
			kept += len(m.value)
		}
	}
	return kept
}

// piece returns the member of that name, which begins as the block did.
func (b *heldBlock) piece(name string) *extra {
	for _, p := range b.pieces {
		if p.name == name {
			return p
		}
	}
	p := &extra{name: name}
	switch v := b.begun.get(name); {
	case len(v) == 0:
	case v[0] == '"':
		p.text.WriteString(textOf(v))
	default:
		p.raw = v
	}
	b.pieces = append(b.pieces, p)
	return p
}

// arguments returns the input of a call as the model wrote it. Some servers write it into the event
// that begins the block, and there some as a string.
func (b *heldBlock) arguments() string {
	if b.input.Len() > 0 {
		return b.input.String()
	}
	return textOf(b.begun.get("input"))
}

// json returns the block. Input that is not an object, which is refused, becomes an empty one.
func (b *heldBlock) json() []byte {
	if b.raw != nil && b.kind != blockCall {
		return b.raw
	}
	o := slices.Clone(b.begun)
	for _, p := range b.pieces {
		o.set(p.name, p.json())
	}
	if b.citations != nil {
		o.set("citations", list(append(elementsOf(o.get("citations")), b.citations...)))
	}
	if b.kind != blockCall && b.input.Len() == 0 {
		return o.json()
	}
	input := []byte(b.arguments())
	if _, ok := objectOf(input); !ok {
		input = []byte("{}")
	}
	if b.raw != nil && string(o.get("input")) == string(input) {
		return b.raw
	}
	o.set("input", input)
	return o.json()
}

// turn returns the model's turn of this round, which has ended.
func (l *messagesLoop) turn() LoopTurn {
	n := &l.now
	t := LoopTurn{Finish: finishOf(n.stop), Ended: !n.failed && n.ended, items: []turnItem{}, blocks: true}
	var text strings.Builder
	calls := 0
	for _, b := range n.blocks {
		text.WriteString(b.text())
		item := turnItem{raw: b.json(), call: -1}
		if b.kind == blockCall {
			c := LoopCall{ID: b.begun.text("id"), Name: b.begun.text("name"), Arguments: b.arguments(), At: calls}
			if c.ID == "" && b.ours {
				c.ID = newID()
				o, _ := objectOf(item.raw)
				o.set("id", quote(c.ID))
				item.raw = o.json()
			}
			c.JSON, item.call = item.raw, calls
			calls++
			if b.ours {
				t.OurCalls = append(t.OurCalls, c)
			} else {
				t.ClientCalls = append(t.ClientCalls, c)
			}
		}
		t.items = append(t.items, item)
	}
	t.Text = text.String()
	l.place(&t)
	return t
}

// place finds the blocks of a turn that the client does not get, and their places among those that
// it gets. The place of calls in a round that another one follows is at its end.
func (l *messagesLoop) place(t *LoopTurn) {
	n, goes := &l.now, t.Continues()
	blocks, after := l.blocks, l.thought
	for i, b := range n.blocks {
		t.items[i].hidden = !l.gets(b) || goes && l.holds(b) && !b.thinks()
		t.items[i].at, t.items[i].after = blocks, after
		if !t.items[i].hidden {
			after = after || b.thinks()
			if b.counts() {
				blocks++
			}
		}
	}
	for i := range t.items {
		if goes && n.blocks[i].ours {
			t.items[i].at, t.items[i].after = blocks, after
		}
	}
}

// finishOf returns the finish reason of a chat completion that a stop reason corresponds to.
func finishOf(stop string) string {
	switch stop {
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "refusal":
		return "content_filter"
	case "tool_use":
		return "tool_calls"
	case pauseTurn, "":
		return stop
	}
	return "stop"
}

// blockMessage returns the assistant message with the blocks of the turn. Texts of white space,
// which are refused, are left out.
func (t *LoopTurn) blockMessage() json.RawMessage {
	var content []json.RawMessage
	for _, i := range t.items {
		o, _ := objectOf(i.raw)
		if o.text("type") != blockText || strings.TrimSpace(o.text("text")) != "" {
			content = append(content, i.raw)
		}
	}
	return object{{"role", []byte(`"assistant"`)}, {"content", list(content)}}.json()
}

// stopped returns the stop reason for the client if it differs from the upstream's: "end_turn" in
// place of "tool_use" if the client got no calls.
func (l *messagesLoop) stopped() (reason []byte, ok bool) {
	n := &l.now
	return []byte(`"end_turn"`), n.stop == "tool_use" && n.ours && !n.theirs
}

// EndWhole implements Loop.
func (l *messagesLoop) EndWhole(body []byte) (t LoopTurn, ok bool) {
	n := &l.now
	o, isObject := objectOf(body)
	content := o.get("content")
	if kind := o.text("type"); !isObject || kind != "" && kind != "message" || len(content) == 0 || content[0] != '[' {
		return t, false
	}
	n.message, n.raw, n.ended = o, body, true
	n.stop = o.text("stop_reason")
	if u := o.get("usage"); len(u) > 0 && u[0] == '{' {
		n.usage = clone(u)
	}
	for _, raw := range elementsOf(content) {
		b := n.add("", raw)
		b.raw = raw
		l.decide(b)
		n.said = n.said || b.says()
		switch {
		case !l.gets(b):
		case l.holds(b):
			n.held = append(n.held, blockEvent{block: b})
		default:
			l.showHeld()
			l.show(b, "")
		}
	}
	return l.turn(), true
}

// showHeld shows the held blocks of a whole answer.
func (l *messagesLoop) showHeld() {
	for _, e := range l.now.held {
		l.show(e.block, "")
	}
	l.now.held = nil
}

// Whole implements Loop.
func (l *messagesLoop) Whole(_ *LoopTurn, vendor json.RawMessage) (body []byte, changed bool) {
	n := &l.now
	l.showHeld()
	if l.round == 1 && len(n.passed) == len(n.blocks) && vendor == nil {
		return n.raw, false
	}
	content := slices.Clone(l.shown)
	for _, b := range n.passed {
		content = append(content, b.raw)
	}
	message := slices.Clone(n.message)
	message.set("content", list(content))
	if reason, ok := l.stopped(); ok {
		message.set("stop_reason", reason)
	}
	if used := l.total(n.usage); used != nil {
		message.set("usage", used)
	}
	if vendor != nil {
		message.set("sidenote", vendor)
	}
	return message.json(), true
}

// ReplayWhole implements Loop.
func (l *messagesLoop) ReplayWhole(body []byte) []byte {
	l.Begin(true)
	t, ok := l.EndWhole(body)
	if !ok {
		panic("BUG: an answer that was read is none")
	}
	if n := &l.now; n.usage != nil && !l.rules.LastUsage {
		n.usage = []byte(`{"input_tokens":0,"output_tokens":0}`) // its usage is already in the sum
	}
	body, _ = l.Whole(&t, nil)
	return body
}

// Continue implements Loop. Of a hidden round the client gets the thinking.
func (l *messagesLoop) Continue(next io.Writer) error {
	n := &l.now
	held, tail := n.held, n.tail
	n.held, n.tail = nil, nil
	for i := range held {
		e := &held[i]
		switch {
		case !n.ours || e.block == nil || !e.block.thinks():
		case e.event == nil: // of a whole answer
			l.show(e.block, "")
		default:
			if err := l.emit(next, e); err != nil {
				return err
			}
		}
	}
	for i := range tail {
		if e := &tail[i]; e.block != nil && l.gets(e.block) && !l.holds(e.block) {
			if err := l.emit(next, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// gets reports whether the client gets a block, if not only later.
func (l *messagesLoop) gets(b *heldBlock) bool { return !b.ours && !b.left }
