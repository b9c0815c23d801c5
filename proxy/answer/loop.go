package answer

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
)

// LoopRules say what of an answer is whose.
type LoopRules struct {
	// Ours tells whether calls of that name are ours, though the client may have a tool whose
	// name begins so.
	Ours func(name string) bool
	// Starts tells whether a name that begins so may be one of ours.
	Starts func(name string) bool
	// HideText keeps what the model says before a call of ours from the client.
	HideText bool
	// Text returns what reads the text of an answer, as it comes, for calls that stand in it; nil:
	// there are none.
	Text func() LoopTextReader
	// LastUsage says that what the rounds before the last one used is not told.
	LastUsage bool
	// Take takes memory for what is held up, in bytes, and tells whether there is any; nil: there is.
	Take func(n int) bool
}

// A LoopTextReader finds calls in a text.
type LoopTextReader interface {
	// Write takes the next piece and returns what is text for certain, and no call.
	Write(piece []byte) (text []byte)
	// Close returns the rest, the calls, and how many bytes of what was written count as said.
	Close() (text []byte, calls []LoopCall, said int)
}

// A LoopCall is one that a model made.
type LoopCall struct {
	ID        string // made here if the model left it out
	Name      string
	Arguments string          // as the model wrote them
	At        int             // its place among all calls of the message, from 0
	JSON      json.RawMessage // as it stands in the message that goes up again; nil if it stood in the text
	Text      string          // as it stood in the text
}

// A call is a Call while it comes.
type call struct {
	id, name  string
	arguments strings.Builder
	kind      string   // "function", or another type; "" so far
	inner     object   // members beside name and arguments of the object that is called as the kind
	raw       object   // members beside those
	number    int      // by which the upstream says which call a piece belongs to
	index     int      // among the client's calls; -1: it has got nothing of it
	held      []object // pieces that came before it was known whose it is
	theirs    bool     // decided on: the client's
}

// json returns the call as it stands in the message that goes up again.
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

// A LoopTurn is what a model said in a round.
type LoopTurn struct {
	Ours, Theirs []LoopCall
	Text         string   // all of it
	Finish       string   // the reason to finish; "" if none was told
	Ended        bool     // the upstream has said that this is the end
	extra        []*extra // members of the message beside role, content and calls
	calls        []json.RawMessage
}

// Continues tells whether another round follows: the model has called tools of ours and nothing
// else, and has said so to the end.
func (t *LoopTurn) Continues() bool { return len(t.Ours) > 0 && len(t.Theirs) == 0 && !t.cut() }

// Mixed tells whether the model has called tools of ours and of the client.
func (t *LoopTurn) Mixed() bool { return len(t.Ours) > 0 && len(t.Theirs) > 0 && !t.cut() }

// LimitOurs drops the calls of tools of ours behind the first n, as if the model had not made them. It is
// for calls that do not stand in the text.
func (t *LoopTurn) LimitOurs(n int) {
	if len(t.Ours) <= n {
		return
	}
	dropped := map[int]bool{}
	for _, c := range t.Ours[n:] {
		dropped[c.At] = true
	}
	var left []json.RawMessage
	for at, raw := range t.calls {
		if !dropped[at] {
			left = append(left, raw)
		}
	}
	t.Ours, t.calls = t.Ours[:n], left
}

// cut tells whether the answer ended within what the model wanted to say.
func (t *LoopTurn) cut() bool { return t.Finish == "length" || t.Finish == "content_filter" }

// Message returns the assistant's message as it goes up again, with all of its calls.
func (t *LoopTurn) Message() json.RawMessage {
	o := object{{"role", []byte(`"assistant"`)}, {"content", []byte("null")}}
	if t.Text != "" {
		o.set("content", quote(t.Text))
	}
	for _, e := range t.extra {
		if string(e.raw) == "[]" { // such as annotations, which not every upstream takes
			continue
		}
		if e.name == "content" && t.Text != "" { // in parts, and in one
			e = &extra{name: e.name, raw: list(append(elementsOf(e.raw), textPart(t.Text)))}
		}
		o.set(e.name, e.json())
	}
	if len(t.calls) > 0 {
		o.set("tool_calls", list(t.calls))
	}
	return o.json()
}

// textPart is a text as one of the parts of a content.
func textPart(text string) []byte {
	return object{{"type", []byte(`"text"`)}, {"text", quote(text)}}.json()
}

// An extra is a member of a message that is none of those that are read here, such as what a model
// thought. It goes up again, as some upstreams ask for that.
type extra struct {
	name string
	raw  []byte          // of another type than text
	text strings.Builder // joined of its pieces
}

func (e *extra) json() []byte {
	if e.raw == nil {
		return quote(e.text.String())
	}
	return e.raw
}

// ErrNoLoopRoom says that there is no memory for what must be held up.
var ErrNoLoopRoom = errors.New("no memory for what is held up of an answer")

// A Loop makes one answer. It is for one goroutine.
type Loop struct {
	rules LoopRules
	round int
	last  bool   // no calls are answered any more
	usage []byte // of the rounds before
	shown string // text that the client has got in rounds before
	said  int    // calls of the client that it has got

	id, created []byte // of the answer, from its first event
	role        bool   // the client has got it

	now loopAnswer
}

// An loopAnswer is the state of a round.
type loopAnswer struct {
	text    strings.Builder
	show    strings.Builder
	reader  LoopTextReader
	rest    []byte     // of the text, when the reader was closed
	found   []LoopCall // in the text
	calls   []*call
	extra   []*extra
	form    *form // of the event before, if it had text and nothing else
	size    int   // bytes of what is kept
	finish  string
	usage   []byte
	blank   int      // bytes at the beginning of the text that are white space; see Said
	begun   bool     // an event came
	began   bool     // text was passed on
	role    bool     // an event that is hidden has the role
	failed  bool     // an event has an error
	open    bool     // the last event was cut, so that nothing can follow
	hidden  [][]byte // events that go out if no round follows
	tail    [][]byte // events from the reason to finish on
	done    []byte   // the event [DONE]
	pattern object   // an event, to make others like it
	body    object   // a whole answer
	raw     []byte   // the same, as it came
}

// NewLoop returns a Loop for one request.
func NewLoop(r LoopRules) *Loop { return &Loop{rules: r} }

// Begin begins a round. In the last one calls of ours are not answered any more.
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

// Rounds returns how many have begun.
func (l *Loop) Rounds() int { return l.round }

// Shown returns the text that the client has of all rounds so far, once this one is finished.
func (l *Loop) Shown() string {
	shown := l.shown + l.now.show.String()
	if n := &l.now; n.says() {
		shown += l.lead() + string(n.rest)
	}
	return shown
}

// hides tells whether the text of this round is kept back until it is known that no other follows.
func (l *Loop) hides() bool { return l.rules.HideText && !l.last }

// take takes memory.
func (l *Loop) take(n int) error {
	if l.rules.Take != nil && !l.rules.Take(n) {
		return ErrNoLoopRoom
	}
	return nil
}

// turn is what was said in this round, which has ended.
func (l *Loop) turn() LoopTurn {
	n := &l.now
	n.endText()
	t := LoopTurn{Text: n.text.String(), Finish: n.finish, Ended: !n.failed && (n.finish != "" || n.done != nil || n.body != nil), extra: n.extra, Ours: n.found}
	for i, c := range n.calls {
		if c.id == "" {
			c.id = newID()
		}
		done := LoopCall{ID: c.id, Name: c.name, Arguments: c.arguments.String(), At: i, JSON: c.json()}
		t.calls = append(t.calls, done.JSON)
		if c.theirs || !l.rules.Ours(c.name) {
			t.Theirs = append(t.Theirs, done)
		} else {
			t.Ours = append(t.Ours, done)
		}
	}
	return t
}

// endText ends the reading of a text. What a model makes up behind its calls does not go up again.
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

// newID makes the id of a call.
func newID() string { return "call_" + strings.ToLower(rand.Text()[:24]) }

// lead is what stands before the text of this round, so that it is not joined to that of a round
// before.
func (l *Loop) lead() string {
	if l.now.began || l.shown == "" || strings.HasSuffix(l.shown, "\n") {
		return ""
	}
	return "\n\n"
}

// total is the usage of the rounds before and of one in this.
func (l *Loop) total(usage []byte) []byte {
	if l.usage == nil {
		return usage
	}
	return sum(l.usage, usage)
}

// finished returns the reason to finish that the client is told; calls that it does not get are
// none. ok is false if it is what the upstream says.
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

// clone copies what is kept of an event.
func clone(b []byte) []byte { return bytes.Clone(b) }
