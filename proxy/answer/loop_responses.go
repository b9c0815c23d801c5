package answer

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A responsesLoop is the Loop of the Responses API. The client gets one response: the output items
// of all rounds except calls of ours, with indexes and sequence numbers without gaps.
//
// Reasoning belongs to the item that follows it, and a client that sends it back without that item
// is refused. So reasoning is held until its item begins, and is left out with a call of ours.
type responsesLoop struct {
	loopRounds
	shown [][]byte // items that the client got in previous rounds

	id, created []byte // of the response, as the client's first event has it; nil before that
	index       int    // output_index of the client's next item
	number      int64  // sequence_number of the client's next event
	edited      bool   // something was left out, so that the upstream's numbers no longer hold

	now responsesRound
}

// A responsesRound is the state of one round.
type responsesRound struct {
	items     []*outputItem
	at        map[itemKey]*outputItem // the last item of each key
	passed    []*outputItem           // those that the client got, in order
	head      []itemEvent             // events before the first item, until something is passed on
	held      []itemEvent             // events and, of a whole answer, items, of which it is not yet known whether the client gets them
	waiting   int                     // how many at the start of held wait for an item that begins
	undecided int                     // items of which it is not yet known whether they are ours
	hiding    bool                    // there was text that is left out if another round follows
	theirs    bool                    // the client gets a call, so no other round follows
	tail      [][]byte                // events from the one that ends the response on

	response object // the finished response
	raw      []byte // the same, of a whole answer
	usage    []byte
	finish   string // as in a chat completion: stop, length or content_filter
	failed   bool   // an event had an error, or the response failed
	said     bool   // see HasOutput
	begun    bool   // an event was read
	open     bool   // the last event was incomplete, so nothing may follow
}

// An itemKey is the id of an item, the output_index that the upstream gives it, or both.
type itemKey struct{ id, number string }

// An outputItem is an item of a response's output.
type outputItem struct {
	number    string // output_index that the upstream gives it
	index     int    // output_index for the client; -1 if it has got nothing of it
	id, kind  string
	name      string // of a function
	arguments strings.Builder
	raw       []byte // the item
	scoped    bool   // a call of a function in a namespace, which none of ours is
	done      bool   // raw is whole
	ours      bool   // a call of ours
	undecided bool   // a call whose name is not yet known
	hidden    bool   // left out if another round follows: hidden text, or what comes after it
	left      bool   // reasoning that is left out with the call of ours after it
}

// Begin implements Loop.
func (l *responsesLoop) Begin(last bool) {
	l.begin(last, l.now.usage)
	for _, item := range l.now.passed {
		if item.raw != nil {
			l.shown = append(l.shown, item.raw)
		}
	}
	l.edited = l.index > 0 || l.id != nil || l.number > 0
	l.now = responsesRound{}
}

// ClientText implements Loop.
func (l *responsesLoop) ClientText() string {
	var b strings.Builder
	for _, raw := range l.shown {
		b.WriteString(textOfItem(raw))
	}
	for _, item := range l.now.passed {
		b.WriteString(textOfItem(item.raw))
	}
	return b.String()
}

// Responses implements Loop.
func (l *responsesLoop) Responses() (client, last string) {
	last = l.now.response.text("id")
	if client = textOf(l.id); client == "" {
		client = last
	}
	return client, last
}

// HasOutput implements Loop.
func (l *responsesLoop) HasOutput() bool { return l.now.said }

// DiscardRound implements Loop.
func (l *responsesLoop) DiscardRound() {
	l.id, l.created, l.index, l.number, l.edited = nil, nil, 0, 0, false
	l.now = responsesRound{usage: l.now.usage}
}

// add returns a new item.
func (n *responsesRound) add(number string, raw []byte) *outputItem {
	item := &outputItem{number: number, index: -1, undecided: true}
	n.undecided++
	n.items = append(n.items, item)
	if n.at == nil {
		n.at = map[itemKey]*outputItem{}
	}
	n.at[itemKey{number: number}] = item
	n.set(item, raw)
	return item
}

// find returns the item of an id and an output_index, of which each may be "" if it is unknown. It
// returns nil if there is none.
func (n *responsesRound) find(id, number string) *outputItem {
	if id == "" && number == "" {
		return nil
	}
	return n.at[itemKey{id, number}]
}

// name makes an item known by an id.
func (n *responsesRound) name(i *outputItem, id string) {
	if i.id = id; id != "" {
		n.at[itemKey{id: id}], n.at[itemKey{id, i.number}] = i, i
	}
}

// set reads the item as the upstream sent it.
func (n *responsesRound) set(i *outputItem, raw []byte) {
	o, ok := objectOf(raw)
	if !ok {
		return
	}
	i.raw = clone(raw)
	n.name(i, o.text("id"))
	i.kind, i.scoped = o.text("type"), o.get("namespace") != nil
	if name := o.text("name"); name != "" {
		i.name = name
	}
	if arguments := o.text("arguments"); arguments != "" {
		i.arguments.Reset()
		i.arguments.WriteString(arguments)
	}
}

// decide decides whether an item is a call of ours. An item that has ended is decided in any case.
func (l *responsesLoop) decide(i *outputItem) {
	if i.undecided && (i.kind != functionCall || i.name != "" || i.done) {
		i.undecided = false
		l.now.undecided--
		i.ours = i.kind == functionCall && !i.scoped && l.rules.Ours(i.name)
		l.now.hiding = l.now.hiding || i.kind == "message" && l.rules.HideText
		i.hidden = l.now.hiding
	}
	l.now.theirs = l.now.theirs || !i.undecided && !i.ours && i.waits()
}

const functionCall = "function_call"

// hosted are the types of calls that the upstream makes itself.
var hosted = []string{"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}

// waits reports whether the item is a call that the client must answer.
func (i *outputItem) waits() bool {
	return strings.HasSuffix(i.kind, "_call") && !slices.Contains(hosted, i.kind) || i.kind == "mcp_approval_request"
}

// holds reports whether the client gets an item that is not ours only later, if at all.
func (l *responsesLoop) holds(i *outputItem) bool {
	n := &l.now
	switch {
	case i.undecided:
		return true
	case l.last || i.index >= 0:
		return false
	case n.theirs:
		return i.kind == "reasoning"
	}
	return i.hidden || i.kind == "reasoning"
}

// show adds an item to those that the client gets.
func (l *responsesLoop) show(i *outputItem) {
	if i.index >= 0 {
		return
	}
	i.index = l.index
	if at, err := strconv.Atoi(i.number); err == nil && !l.edited {
		i.index = at
	}
	l.index = max(l.index, i.index) + 1
	l.now.passed = append(l.now.passed, i)
}

// turn returns the model's turn of this round, which has ended.
func (l *responsesLoop) turn() LoopTurn {
	n := &l.now
	t := LoopTurn{Finish: n.finish, Ended: !n.failed && n.response != nil, items: []turnItem{}}
	answered := map[string]bool{} // calls whose output is in the response, too
	for _, i := range n.items {
		if strings.HasSuffix(i.kind, "_call_output") {
			o, _ := objectOf(i.raw)
			answered[o.text("call_id")] = true
		}
	}
	var text strings.Builder
	var of []*outputItem // of each item of the turn
	calls := 0
	for _, i := range n.items {
		i.done = true
		l.decide(i)
		if i.raw == nil { // it was not even announced
			continue
		}
		text.WriteString(textOfItem(i.raw))
		item := turnItem{raw: i.raw, call: -1}
		o, _ := objectOf(i.raw)
		id := o.text("call_id")
		switch {
		case i.ours || i.waits() && !answered[id]:
			if id == "" && i.ours {
				id = newID()
				o.set("call_id", quote(id))
				item.raw = o.json()
			}
			item.call = calls
			calls++
			c := LoopCall{ID: id, Name: i.name, Arguments: i.arguments.String(), At: item.call, JSON: item.raw}
			if i.ours {
				t.OurCalls = append(t.OurCalls, c)
			} else {
				t.ClientCalls = append(t.ClientCalls, c)
			}
		case i.kind == "reasoning" && l.rules.Stateless && o.get("encrypted_content") == nil:
			continue // the upstream would look for what it has not stored
		}
		t.items, of = append(t.items, item), append(of, i)
	}
	t.Text = text.String()
	n.leave()
	for at, i := range of {
		t.items[at].hidden = i.ours || i.left || i.index < 0 && t.Continues()
	}
	return t
}

// leave leaves out the reasoning that the client has not got, if a call of ours follows.
func (n *responsesRound) leave() {
	ours := false
	for _, i := range slices.Backward(n.items) {
		if i.kind != "reasoning" {
			ours = i.ours
		} else if ours && i.index < 0 {
			i.left = true
		}
	}
}

// textOfItem returns the text of an output item.
func textOfItem(raw []byte) (text string) {
	o, _ := objectOf(raw)
	if o.text("type") != "message" {
		return ""
	}
	for _, part := range elementsOf(o.get("content")) {
		if p, _ := objectOf(part); p.text("type") == "output_text" {
			text += p.text("text")
		}
	}
	return text
}

// end reads the finished response and returns false if it has no output.
func (l *responsesLoop) end(response []byte) bool {
	n := &l.now
	o, ok := objectOf(response)
	output := o.get("output")
	if !ok || len(output) == 0 || output[0] != '[' {
		return false
	}
	n.response = o
	if u := o.get("usage"); len(u) > 0 && u[0] == '{' {
		n.usage = clone(u)
	}
	switch why, _ := objectOf(o.get("incomplete_details")); {
	case o.text("status") == "failed", o.text("status") == "cancelled":
		n.failed = true
	case why.text("reason") == "content_filter":
		n.finish = "content_filter"
	case o.text("status") == "incomplete":
		n.finish = "length"
	default:
		n.finish = "stop"
	}
	return true
}

// EndWhole implements Loop.
func (l *responsesLoop) EndWhole(body []byte) (t LoopTurn, ok bool) {
	n := &l.now
	o, _ := objectOf(body)
	switch o.text("status") {
	case "queued", "in_progress", "failed", "cancelled": // not an answer, or not yet
		return t, false
	}
	if !l.end(body) {
		return t, false
	}
	n.raw = body
	for _, raw := range elementsOf(n.response.get("output")) {
		item := n.add("", raw)
		item.done = true
		l.decide(item)
		n.said = n.said || item.says()
		switch {
		case item.ours:
		case item.kind == "reasoning", l.holds(item):
			n.held = append(n.held, itemEvent{item: item})
		default:
			l.showHeld()
			l.show(item)
		}
	}
	return l.turn(), true
}

// says reports whether an item is output of the model other than white space.
func (i *outputItem) says() bool {
	return i.kind != "message" || strings.TrimSpace(textOfItem(i.raw)) != "" || strings.Contains(string(i.raw), `"refusal"`)
}

// showHeld shows the held items of a whole answer.
func (l *responsesLoop) showHeld() {
	for _, e := range l.now.held {
		if !e.item.left {
			l.show(e.item)
		}
	}
	l.now.held = nil
}

// Whole implements Loop.
func (l *responsesLoop) Whole(_ *LoopTurn, vendor json.RawMessage) (body []byte, changed bool) {
	n := &l.now
	l.showHeld()
	if l.round == 1 && len(n.passed) == len(n.items) && vendor == nil {
		return n.raw, false
	}
	return l.joined(n.response, vendor).json(), true
}

// joined returns the last round's response with the items and the usage of all rounds.
func (l *responsesLoop) joined(response object, vendor json.RawMessage) object {
	n := &l.now
	output := slices.Clone(l.shown)
	for _, item := range n.passed {
		if item.raw != nil {
			output = append(output, item.raw)
		}
	}
	response = slices.Clone(response)
	response.set("output", list(output))
	if l.id != nil {
		response.set("id", l.id)
	}
	if l.created != nil {
		response.set("created_at", l.created)
	}
	if l.usage != nil {
		response.set("usage", l.total(n.usage))
	}
	if vendor != nil {
		response.set("sidenote", vendor)
	}
	return response
}

// ReplayWhole implements Loop.
func (l *responsesLoop) ReplayWhole(body []byte) []byte {
	l.Begin(true)
	t, ok := l.EndWhole(body)
	if !ok {
		panic("BUG: an answer that was read is none")
	}
	if n := &l.now; n.usage != nil && !l.rules.LastUsage {
		n.usage = []byte(`{"input_tokens":0,"output_tokens":0,"total_tokens":0}`) // its usage is already in the sum
	}
	body, _ = l.Whole(&t, nil)
	return body
}

// Continue implements Loop. Of this round only the rest of items that the client knows is passed on.
func (l *responsesLoop) Continue(next io.Writer) error {
	held := l.now.held
	l.now.held, l.now.head, l.now.tail = nil, nil, nil
	for i := range held {
		if e := &held[i]; e.item != nil && e.item.index >= 0 {
			if err := l.emit(next, e); err != nil {
				return err
			}
		}
	}
	return nil
}
