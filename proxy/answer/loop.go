package answer

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"sidenote/rewrite/chat"
)

// LoopRules configure a Loop. Ours is required, and MayStartOurs for streams of chat completions.
type LoopRules struct {
	API chat.API
	// Ours reports whether calls with that tool name are answered here rather than by the client.
	Ours func(name string) bool
	// MayStartOurs reports whether a name that starts with this text may turn out to be one of
	// ours.
	MayStartOurs func(name string) bool
	// HideText hides text that the model writes before it calls one of our tools.
	HideText bool
	// Text returns a reader that finds tool calls written into the text of a chat completion. If it
	// is nil, text is not searched for calls.
	Text func() LoopTextReader
	// LastUsage reports the usage of the last round only, instead of the sum of all rounds.
	LastUsage bool
	// Stateless reports that the upstream of a Responses request keeps none of its items. Reasoning
	// is then sent back only if it is encrypted.
	Stateless bool
	// Take reserves n bytes of memory for held data and reports whether they were available. If it
	// is nil, memory is not limited.
	Take func(n int) bool
}

// A LoopTextReader finds tool calls in a text.
type LoopTextReader interface {
	// Write reads the next piece and returns the text that is certainly not part of a call.
	Write(piece []byte) (text []byte)
	// Close returns the remaining text, the calls, and the number of input bytes to keep in the
	// model's message.
	Close() (text []byte, calls []LoopCall, said int)
}

// A LoopCall is a tool call by the model.
type LoopCall struct {
	ID        string // generated if the model omitted it
	Name      string
	Arguments string          // as the model wrote them
	At        int             // index among all calls of the message
	JSON      json.RawMessage // as in the message for the next round; nil if the call was found in the text
	Text      string          // the call as written in the text
}

// A call is a tool call while its pieces arrive.
type call struct {
	id, name  string
	arguments strings.Builder
	kind      string   // "function" or another type; "" if not yet known
	inner     object   // other members of the object that has name and arguments
	raw       object   // other members of the call
	number    int      // index that the upstream gives it
	index     int      // index among the client's calls; -1 if the client has got nothing of it yet
	held      []object // pieces that came before it was known whose call it is
	theirs    bool     // known to be the client's
}

// json returns the call as it is sent to the upstream in the next round.
func (c *call) json() []byte {
	kind, arguments := c.kind, "arguments"
	if kind == "" {
		kind = "function"
	}
	if kind == "custom" {
		arguments = "input"
	}
	inner := append(object{{"name", quote(c.name)}, {arguments, quote(c.arguments.String())}}, c.inner...)
	return append(object{{"id", quote(c.id)}, {"type", quote(kind)}, {kind, inner.json()}}, c.raw...).json()
}

// A LoopTurn is the model's message in one round.
type LoopTurn struct {
	OurCalls, ClientCalls []LoopCall
	Text                  string   // the whole text, hidden or not
	Finish                string   // the finish reason; "" if there was none
	Ended                 bool     // the answer is complete
	extra                 []*extra // members of the message other than role, content and tool_calls
	calls                 []json.RawMessage
	items                 []turnItem // of a response, or the content blocks of a message; nil for a chat completion
	blocks                bool       // items are content blocks
	hidden                bool       // the client does not get the text if another round follows
}

// A turnItem is an output item of a response or a content block of a message.
type turnItem struct {
	raw    json.RawMessage
	call   int  // its index among the calls; -1 for other items
	hidden bool // the client does not get it
	at     int  // see LoopPart
	after  bool // see LoopPart
}

// A LoopPart is a part of a turn that the client does not get.
type LoopPart struct {
	JSON json.RawMessage
	// At is the index of a call of a chat completion among all calls of the message. Of a content
	// block it is the number of blocks of all rounds that the client gets before it, not counting
	// thinking and empty texts. AfterThinking reports that the block comes after the thinking, if the
	// client gets some between the same blocks.
	At            int
	AfterThinking bool
}

// compare compares the places of two parts.
func (p LoopPart) compare(q LoopPart) int {
	if p.At == q.At && p.AfterThinking != q.AfterThinking {
		if p.AfterThinking {
			return 1
		}
		return -1
	}
	return p.At - q.At
}

// Continues reports whether another round follows: the model called only tools of ours, and its
// answer was not cut short.
func (t *LoopTurn) Continues() bool {
	return len(t.OurCalls) > 0 && len(t.ClientCalls) == 0 && !t.cut()
}

// Mixed reports whether the model called both tools of ours and tools of the client.
func (t *LoopTurn) Mixed() bool { return len(t.OurCalls) > 0 && len(t.ClientCalls) > 0 && !t.cut() }

// LimitOurs drops the calls of our tools after the first n, as if the model had not made them.
// Calls found in the text are not supported.
func (t *LoopTurn) LimitOurs(n int) {
	if len(t.OurCalls) <= n {
		return
	}
	dropped := map[int]bool{}
	for _, c := range t.OurCalls[n:] {
		dropped[c.At] = true
	}
	var left []json.RawMessage
	for at, raw := range t.calls {
		if !dropped[at] {
			left = append(left, raw)
		}
	}
	t.OurCalls, t.calls = t.OurCalls[:n], left
	t.items = slices.DeleteFunc(t.items, func(i turnItem) bool { return dropped[i.call] })
}

// cut reports whether the answer was cut short, or paused until the client continues it.
func (t *LoopTurn) cut() bool {
	return t.Finish == "length" || t.Finish == "content_filter" || t.Finish == pauseTurn
}

// Messages returns what the turn adds to the request of the next round: the assistant message with
// all of its calls, or the output items of a response.
func (t *LoopTurn) Messages() (list []json.RawMessage) {
	switch {
	case t.blocks:
		return []json.RawMessage{t.blockMessage()}
	case t.items == nil:
		return []json.RawMessage{t.message().json()}
	}
	for _, i := range t.items {
		list = append(list, i.raw)
	}
	return list
}

// Unseen returns what the client does not get of Messages. Of a chat completion that is the message,
// without text that the client gets, if another round follows, and otherwise the calls of ours.
func (t *LoopTurn) Unseen() (list []LoopPart) {
	switch {
	case t.items != nil:
		for _, i := range t.items {
			if i.hidden {
				list = append(list, LoopPart{i.raw, i.at, i.after})
			}
		}
		slices.SortStableFunc(list, LoopPart.compare)
	case t.Continues():
		m := t.message()
		if !t.hidden {
			m.set("content", []byte("null"))
		}
		list = append(list, LoopPart{JSON: m.json()})
	default:
		for _, c := range t.OurCalls {
			list = append(list, LoopPart{JSON: c.JSON, At: c.At})
		}
	}
	return list
}

// message returns the message of a chat completion.
func (t *LoopTurn) message() object {
	o := object{{"role", []byte(`"assistant"`)}, {"content", []byte("null")}}
	if t.Text != "" {
		o.set("content", quote(t.Text))
	}
	for _, e := range t.extra {
		if string(e.raw) == "[]" { // such as annotations, which some upstreams reject
			continue
		}
		if e.name == "content" && t.Text != "" { // content both as parts and as text
			e = &extra{name: e.name, raw: list(append(elementsOf(e.raw), textPart(t.Text)))}
		}
		o.set(e.name, e.json())
	}
	if len(t.calls) > 0 {
		o.set("tool_calls", list(t.calls))
	}
	return o
}

// textPart returns a text as a content part.
func textPart(text string) []byte {
	return object{{"type", []byte(`"text"`)}, {"text", quote(text)}}.json()
}

// An extra is another member of the message, such as reasoning. It is sent back in the next round,
// since some upstreams require that.
type extra struct {
	name string
	raw  []byte          // value if it is not a string
	text strings.Builder // joined from its pieces
}

func (e *extra) json() []byte {
	if e.raw == nil {
		return quote(e.text.String())
	}
	return e.raw
}

// ErrNoLoopRoom is returned when there is no memory for data that must be held.
var ErrNoLoopRoom = errors.New("not enough memory to hold back part of an answer")

// A Loop joins the rounds of a tool-call loop into one answer. It is not safe for concurrent use.
type Loop interface {
	// Begin starts a round. In the last one calls of ours are no longer answered.
	Begin(last bool)
	// Rounds returns the number of rounds begun.
	Rounds() int

	// Stage is an EventStage for this round's answer, which is a stream. From the finish reason on,
	// events are held until Finish or Continue.
	Stage(next io.Writer) io.Writer
	// HasOutput reports whether the model said anything in this round: text other than white space,
	// reasoning, a refusal, or a call.
	HasOutput() bool
	// EndStream ends a round whose answer was a stream. It writes the rest for the client to next,
	// except for the end of the answer.
	EndStream(next io.Writer) (LoopTurn, error)
	// EndWhole ends a round with a whole answer. ok is false if that has no message; it is then
	// passed on unchanged.
	EndWhole(body []byte) (t LoopTurn, ok bool)

	// Continue drops the end of a round that another round follows, and passes on the text in it
	// unless it is hidden.
	Continue(next io.Writer) error
	// DiscardRound discards the answer of this round, of which the client has got nothing, except
	// for its usage.
	DiscardRound()
	// Finish writes the end of the answer: hidden events, the member "sidenote" unless vendor is nil,
	// the end of the last round, and a comment unless it is "".
	Finish(next io.Writer, vendor json.RawMessage, comment string) error
	// Fail writes an event with the error in body or, if it has none, with one that says that the
	// answer broke off.
	Fail(next io.Writer, body []byte) error
	// Whole returns the answer for the client, and whether it differs from the upstream's last
	// answer. vendor becomes its member "sidenote" unless it is nil.
	Whole(t *LoopTurn, vendor json.RawMessage) (body []byte, changed bool)
	// Events converts a whole answer into a stream with a comment near its end. usage includes the
	// usage.
	Events(body []byte, usage bool, comment string) []byte
	// ReplayWhole ends the rounds with the whole answer of an earlier round and returns the answer
	// for the client.
	ReplayWhole(body []byte) []byte

	// ClientText returns the text that the client has got from all rounds when this one is finished.
	ClientText() string
	// Responses returns the id of the response that the client gets, and that of the last round; ""
	// if unknown. Chat completions have none.
	Responses() (client, last string)
}

// NewLoop returns a Loop for one request.
func NewLoop(r LoopRules) Loop {
	rounds := loopRounds{rules: r}
	switch r.API {
	case chat.Responses:
		return &responsesLoop{loopRounds: rounds}
	case chat.Messages:
		return &messagesLoop{loopRounds: rounds}
	}
	return &completionsLoop{loopRounds: rounds}
}

// A completionsLoop is the Loop of chat completions.
type completionsLoop struct {
	loopRounds
	shown string // text that the client got in previous rounds
	said  int    // number of the client's calls that were passed on

	id, created []byte // of the answer, from its first event
	role        bool   // the role was passed on

	now loopAnswer
}

// A loopAnswer is the state of one round.
type loopAnswer struct {
	text    strings.Builder
	show    strings.Builder
	reader  LoopTextReader
	rest    []byte     // text that the reader returned on Close
	found   []LoopCall // calls found in the text
	calls   []*call
	extra   []*extra
	form    *eventTemplate // form of the previous event, if it had text and nothing else
	size    int            // bytes kept
	finish  string
	usage   []byte
	blank   int      // length of the white space at the start of the text; see HasOutput
	begun   bool     // an event was read
	began   bool     // text was passed on
	role    bool     // a held event has the role
	failed  bool     // an event had an error
	open    bool     // the last event was incomplete, so nothing may follow
	hidden  [][]byte // hidden events, passed on if no round follows
	tail    [][]byte // events from the finish reason on
	done    []byte   // the event [DONE]
	pattern object   // members for events that Loop writes
	body    object   // a non-streamed answer
	raw     []byte   // the same, unparsed
}

// Begin implements Loop.
func (l *completionsLoop) Begin(last bool) {
	l.begin(last, l.now.usage)
	l.shown += l.now.show.String()
	l.now = loopAnswer{}
	if l.rules.Text != nil {
		l.now.reader = l.rules.Text()
	}
}

// Responses implements Loop.
func (l *completionsLoop) Responses() (client, last string) { return "", "" }

// ClientText implements Loop.
func (l *completionsLoop) ClientText() string {
	shown := l.shown + l.now.show.String()
	if n := &l.now; n.says() {
		shown += l.lead() + string(n.rest)
	}
	return shown
}

// turn returns the model's message of this round, which has ended.
func (l *completionsLoop) turn() LoopTurn {
	n := &l.now
	n.endText()
	t := LoopTurn{Text: n.text.String(), Finish: n.finish, Ended: !n.failed && (n.finish != "" || n.done != nil || n.body != nil), extra: n.extra, OurCalls: n.found, hidden: l.hides()}
	for i, c := range n.calls {
		if c.id == "" {
			c.id = newID()
		}
		done := LoopCall{ID: c.id, Name: c.name, Arguments: c.arguments.String(), At: i, JSON: c.json()}
		t.calls = append(t.calls, done.JSON)
		if c.theirs || !l.rules.Ours(c.name) {
			t.ClientCalls = append(t.ClientCalls, done)
		} else {
			t.OurCalls = append(t.OurCalls, done)
		}
	}
	return t
}

// endText closes the text reader. Text that the model invents after its calls is not sent back to
// it.
func (n *loopAnswer) endText() {
	if n.reader == nil {
		return
	}
	said := 0
	n.rest, n.found, said = n.reader.Close()
	n.reader = nil
	if text := n.text.String(); said < len(text) {
		n.text.Reset()
		n.text.WriteString(text[:said])
	}
}

// newID returns a new call id.
func newID() string { return "call_" + strings.ToLower(rand.Text()[:24]) }

// lead returns the separator between the text of an earlier round and that of this one.
func (l *completionsLoop) lead() string {
	if l.now.began || l.shown == "" || strings.HasSuffix(l.shown, "\n") {
		return ""
	}
	return "\n\n"
}

// finished returns the finish reason for the client if it differs from the upstream's: "stop" in
// place of "tool_calls" if the client got no calls. ok is false if it does not differ.
func (l *completionsLoop) finished() (reason []byte, ok bool) {
	n := &l.now
	if n.finish != "tool_calls" || len(n.calls) == 0 {
		return nil, false
	}
	for _, c := range n.calls {
		if c.index >= 0 || c.theirs {
			return nil, false
		}
	}
	return []byte(`"stop"`), true
}

// clone copies a part of an event that is kept.
func clone(b []byte) []byte { return bytes.Clone(b) }
