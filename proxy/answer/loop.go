package answer

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
)

// LoopRules configure a Loop. Ours is required, and MayStartOurs for streams.
type LoopRules struct {
	// Ours reports whether calls with that tool name are answered here rather than by the client.
	Ours func(name string) bool
	// MayStartOurs reports whether a name that starts with this text may turn out to be one of
	// ours.
	MayStartOurs func(name string) bool
	// HideText hides text that the model writes before it calls one of our tools.
	HideText bool
	// Text returns a reader that finds tool calls written into the text of an answer. If it is nil,
	// text is not searched for calls.
	Text func() LoopTextReader
	// LastUsage reports the usage of the last round only, instead of the sum of all rounds.
	LastUsage bool
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
}

// cut reports whether the answer was cut short.
func (t *LoopTurn) cut() bool { return t.Finish == "length" || t.Finish == "content_filter" }

// Message returns the assistant message for the next round, with all of its calls.
func (t *LoopTurn) Message() json.RawMessage {
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
	return o.json()
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
type Loop struct {
	rules LoopRules
	round int
	last  bool   // last round: calls of ours are no longer answered
	usage []byte // sum of the previous rounds
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

// NewLoop returns a Loop for one request.
func NewLoop(r LoopRules) *Loop { return &Loop{rules: r} }

// Begin starts a round. In the last one calls of ours are no longer answered.
func (l *Loop) Begin(last bool) {
	if l.now.usage != nil && !l.rules.LastUsage {
		l.usage = sum(l.usage, l.now.usage)
	}
	l.round++
	l.last = last
	l.shown += l.now.show.String()
	l.now = loopAnswer{}
	if l.rules.Text != nil {
		l.now.reader = l.rules.Text()
	}
}

// Rounds returns the number of rounds begun.
func (l *Loop) Rounds() int { return l.round }

// ClientText returns the text that the client has got from all rounds when this one is finished.
func (l *Loop) ClientText() string {
	shown := l.shown + l.now.show.String()
	if n := &l.now; n.says() {
		shown += l.lead() + string(n.rest)
	}
	return shown
}

// hides reports whether the text of this round is held until it is known that no other round
// follows.
func (l *Loop) hides() bool { return l.rules.HideText && !l.last }

// take reserves memory.
func (l *Loop) take(n int) error {
	if l.rules.Take != nil && !l.rules.Take(n) {
		return ErrNoLoopRoom
	}
	return nil
}

// turn returns the model's message of this round, which has ended.
func (l *Loop) turn() LoopTurn {
	n := &l.now
	n.endText()
	t := LoopTurn{Text: n.text.String(), Finish: n.finish, Ended: !n.failed && (n.finish != "" || n.done != nil || n.body != nil), extra: n.extra, OurCalls: n.found}
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
func (l *Loop) lead() string {
	if l.now.began || l.shown == "" || strings.HasSuffix(l.shown, "\n") {
		return ""
	}
	return "\n\n"
}

// total returns the usage of the earlier rounds plus that of this one.
func (l *Loop) total(usage []byte) []byte {
	if l.usage == nil {
		return usage
	}
	return sum(l.usage, usage)
}

// finished returns the finish reason for the client if it differs from the upstream's: "stop" in
// place of "tool_calls" if the client got no calls. ok is false if it does not differ.
func (l *Loop) finished() (reason []byte, ok bool) {
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
