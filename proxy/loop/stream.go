package loop

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// Stage takes the events of this round's answer, which is a stream: an events.Stage. From the
// reason to finish on they are held until Finish or Continue.
func (l *Loop) Stage(next io.Writer) io.Writer { return &stage{l, next} }

type stage struct {
	*Loop
	next io.Writer
}

// dataOf returns where the data of an event stands; ok is false if it has none, or several lines of it.
func dataOf(event []byte) (from, to int, ok bool) {
	at := 0
	for line := range bytes.Lines(event) {
		if bytes.HasPrefix(line, []byte("data:")) {
			if ok {
				return 0, 0, false
			}
			ok = true
			data := bytes.TrimSpace(line[len("data:"):])
			from = at + len("data:") + bytes.Index(line[len("data:"):], data)
			to = from + len(data)
		}
		at += len(line)
	}
	return from, to, ok
}

// Write takes one event.
func (s *stage) Write(event []byte) (int, error) {
	n := &s.now
	from, to, ok := dataOf(event)
	if !ok {
		return s.pass(event, false)
	}
	data := event[from:to]
	if string(data) == "[DONE]" {
		n.done = clone(event)
		return len(event), nil
	}
	o, ok := objectOf(data)
	if !ok || o.get("error") != nil {
		return s.pass(event, false)
	}
	p := part{o: o}
	if err := s.take(s.read(&p)); err != nil {
		return 0, err
	}
	if p.nothing {
		return len(event), nil
	}
	if p.changed {
		event = splice(event, from, to, p.o.json())
	}
	if p.ends || n.finish != "" && p.empty {
		return len(event), s.keep(&n.tail, event)
	}
	return s.pass(event, p.text && s.hides())
}

// read reads an event and takes out what is not for the client. It returns how many bytes it keeps.
func (l *Loop) read(p *part) (kept int) {
	before := l.now.size
	l.head(p)
	l.choices(p)
	return l.now.size - before
}

// splice puts data in place of what an event has.
func splice(event []byte, from, to int, data []byte) []byte {
	b := make([]byte, 0, len(event)-(to-from)+len(data))
	return append(append(append(b, event[:from]...), data...), event[to:]...)
}

// pass hands on an event, or keeps it if it is hidden so far.
func (s *stage) pass(event []byte, hide bool) (int, error) {
	if hide {
		return len(event), s.keep(&s.now.hidden, event)
	}
	return s.next.Write(event)
}

func (l *Loop) keep(in *[][]byte, event []byte) error {
	if err := l.take(len(event)); err != nil {
		return err
	}
	*in = append(*in, clone(event))
	return nil
}

// A part is an event while it is read and changed.
type part struct {
	o       object
	changed bool
	nothing bool // nothing of it is for the client
	empty   bool // it has no choices
	ends    bool // it has the reason to finish
	text    bool // it has text
}

func (p *part) set(name string, value []byte) {
	p.o.set(name, value)
	p.changed = true
}

// head gives the event the id and the time of the first one, and the sum of what was used.
func (l *Loop) head(p *part) {
	if id := p.o.get("id"); l.id == nil && id != nil {
		l.id, l.created = clone(id), clone(p.o.get("created"))
	}
	if l.now.pattern == nil {
		for _, name := range []string{"id", "object", "created", "model"} {
			if v := p.o.get(name); v != nil {
				l.now.pattern = append(l.now.pattern, member{name, clone(v)})
			}
		}
		if l.round > 1 && l.id != nil {
			l.now.pattern.set("id", l.id)
		}
	}
	if l.round > 1 {
		if l.id != nil {
			p.set("id", l.id)
		}
		if l.created != nil {
			p.set("created", l.created)
		}
	}
	if u := p.o.get("usage"); len(u) > 0 && u[0] == '{' {
		l.now.usage = clone(u)
		if l.usage != nil {
			p.set("usage", l.total(u))
		}
	}
}

// choices reads the choices of an event, and takes out what is not for the client.
func (l *Loop) choices(p *part) {
	all := elementsOf(p.o.get("choices"))
	p.empty = len(all) == 0
	changed, kept := false, all[:0:0]
	for _, raw := range all {
		choice, ok := objectOf(raw)
		if !ok || choice.get("index") != nil && string(choice.get("index")) != "0" {
			kept = append(kept, raw)
			continue
		}
		c := said{choice: choice}
		l.choice(p, &c)
		if c.nothing {
			changed = true
			continue
		}
		if c.changed {
			raw, changed = c.choice.json(), true
		}
		kept = append(kept, raw)
	}
	if !changed {
		return
	}
	if len(kept) == 0 && p.o.get("usage") == nil {
		p.nothing = true
		return
	}
	p.set("choices", list(kept))
}

// said is a choice of an event.
type said struct {
	choice  object
	changed bool
	nothing bool
}

// choice reads a choice.
func (l *Loop) choice(p *part, c *said) {
	delta, ok := objectOf(c.choice.get("delta"))
	finish := c.choice.get("finish_reason")
	if finish != nil {
		l.now.finish, p.ends = textOf(finish), true
	}
	if !ok {
		return
	}
	var shown object
	withheld := false
	for _, m := range delta {
		value, own := l.member(m, p)
		if value == nil {
			withheld = true
			continue
		}
		c.changed = c.changed || own
		shown = append(shown, member{m.name, value})
	}
	if withheld {
		c.changed = true
		c.nothing = finish == nil && says(shown) == 0
	}
	if c.changed {
		if shown == nil {
			shown = object{}
		}
		c.choice.set("delta", shown.json())
	}
}

// says counts the members of a delta that are not null or empty.
func says(delta object) (n int) {
	for _, m := range delta {
		switch string(m.value) {
		case "null", `""`, "[]":
		default:
			n++
		}
	}
	return n
}

// member reads a member of a delta and returns its value for the client, nil if it gets none. own
// says that it is not as it came.
func (l *Loop) member(m member, p *part) (value []byte, own bool) {
	n := &l.now
	if string(m.value) == "null" {
		return m.value, false
	}
	switch m.name {
	case "role":
		if l.role && l.round > 1 {
			return nil, false
		}
		l.role = true
		return m.value, false
	case "content":
		return l.content(m.value, p)
	case "tool_calls":
		return l.calls(m.value)
	}
	n.join(m)
	p.text = true
	return m.value, false
}

// join adds a member of a delta to the message.
func (n *answer) join(m member) {
	n.size += len(m.value)
	i := 0
	for i < len(n.extra) && n.extra[i].name != m.name {
		i++
	}
	if i == len(n.extra) {
		n.extra = append(n.extra, &extra{name: m.name})
	}
	e := n.extra[i]
	switch {
	case m.value[0] == '"' && e.raw == nil:
		e.text.WriteString(textOf(m.value))
	case m.value[0] == '[' && len(e.raw) > 0 && e.raw[0] == '[':
		e.raw = list(append(elementsOf(e.raw), elementsOf(m.value)...))
	default:
		e.raw = clone(m.value)
	}
}

// content reads a piece of text.
func (l *Loop) content(raw []byte, p *part) (value []byte, own bool) {
	n, text := &l.now, textOf(raw)
	if text == "" {
		return raw, false
	}
	p.text = true
	n.size += len(text)
	n.text.WriteString(text)
	if n.reader != nil {
		clear := string(n.reader.Write([]byte(text)))
		own, text = clear != text, clear
		if text == "" {
			return nil, false
		}
	}
	if lead := l.lead(); lead != "" {
		own, text = true, lead+text
	}
	n.began = true
	n.show.WriteString(text)
	if own {
		return quote(text), true
	}
	return raw, false
}

// calls reads pieces of calls, and returns those that are the client's.
func (l *Loop) calls(raw []byte) (value []byte, own bool) {
	var theirs [][]byte
	pieces := elementsOf(raw)
	for _, raw := range pieces {
		piece, ok := objectOf(raw)
		if !ok {
			continue
		}
		l.now.size += len(raw)
		c := l.callOf(piece)
		c.add(piece)
		for _, held := range l.release(c, piece) {
			same := len(held) == len(piece) && bytes.Equal(held.json(), piece.json())
			if !same {
				own = true
			}
			theirs = append(theirs, held.json())
		}
	}
	switch {
	case len(theirs) == 0:
		return nil, false
	case own || len(theirs) != len(pieces):
		return list(theirs), true
	}
	return raw, false
}

// callOf returns the call that a piece continues, or a new one. Servers number pieces, or leave the
// number out where each piece is a whole call, or give them all the number 0.
func (l *Loop) callOf(piece object) *call {
	n := &l.now
	id, index := piece.text("id"), piece.get("index")
	name, _ := nameAndArguments(piece)
	if index == nil {
		if len(n.calls) > 0 && id == "" && name == "" {
			return n.calls[len(n.calls)-1]
		}
		return l.newCall(len(n.calls))
	}
	at, err := strconv.Atoi(string(index))
	if err != nil {
		at = len(n.calls)
	}
	for i := len(n.calls) - 1; i >= 0; i-- {
		c := n.calls[i]
		if c.number != at {
			continue
		}
		if id != "" && c.id != "" && id != c.id && name != "" {
			break // another call by the same number
		}
		return c
	}
	return l.newCall(at)
}

func (l *Loop) newCall(number int) *call {
	c := &call{number: number, index: -1}
	l.now.calls = append(l.now.calls, c)
	return c
}

// nameAndArguments reads them from a piece of a call of any type.
func nameAndArguments(piece object) (name, arguments string) {
	if f, ok := objectOf(piece.get("custom")); ok {
		return f.text("name"), f.text("input")
	}
	f, _ := objectOf(piece.get("function"))
	return f.text("name"), f.text("arguments")
}

// add adds a piece to a call.
func (c *call) add(piece object) {
	name, arguments := nameAndArguments(piece)
	if c.arguments.Len() == 0 && name != c.name { // some servers say the name with each piece
		c.name += name
	}
	c.arguments.WriteString(arguments)
	for _, m := range piece {
		switch m.name {
		case "index":
		case "id":
			if c.id == "" {
				c.id = textOf(m.value)
			}
		case "type":
			if c.kind == "" {
				c.kind = textOf(m.value)
			}
		case "function", "custom":
			c.kind, c.theirs = m.name, c.theirs || m.name == "custom"
			inner, _ := objectOf(m.value)
			for _, f := range inner {
				if f.name != "name" && f.name != "arguments" && f.name != "input" {
					c.inner.set(f.name, clone(f.value))
				}
			}
		default:
			c.raw.set(m.name, clone(m.value))
		}
	}
}

// release returns what the client gets of a call once it is known whose it is: all pieces that were
// held, and this one.
func (l *Loop) release(c *call, piece object) []object {
	if !c.theirs {
		undecided := c.arguments.Len() == 0 && (c.name == "" || l.rules.Starts(c.name))
		if undecided {
			c.held = append(c.held, copied(piece))
			return nil
		}
		if l.rules.Ours(c.name) {
			c.held = nil
			return nil
		}
		c.theirs = true
	}
	return l.number(c, append(c.take(), piece))
}

func (c *call) take() []object {
	held := c.held
	c.held = nil
	return held
}

func copied(o object) object {
	c := make(object, len(o))
	for i, m := range o {
		c[i] = member{m.name, clone(m.value)}
	}
	return c
}

// number gives pieces of a client's call its number among these, and an id.
func (l *Loop) number(c *call, pieces []object) []object {
	first := c.index < 0
	if first {
		c.index = l.said
		l.said++
	}
	for i := range pieces {
		if string(pieces[i].get("index")) != strconv.Itoa(c.index) {
			pieces[i].set("index", strconv.AppendInt(nil, int64(c.index), 10))
		}
	}
	if first && c.id == "" {
		c.id = newID()
		pieces[0].set("id", quote(c.id))
	}
	return pieces
}

// EndStream ends a round whose answer was a stream. What the client gets of it but for its end is
// written to next.
func (l *Loop) EndStream(next io.Writer) (Turn, error) {
	n := &l.now
	var rest []object
	for _, c := range n.calls {
		if !c.theirs && !l.rules.Ours(c.name) {
			c.theirs = true
			rest = append(rest, l.number(c, c.take())...)
		}
	}
	turn := l.turn()
	if len(rest) > 0 {
		var all [][]byte
		for _, piece := range rest {
			all = append(all, piece.json())
		}
		if err := l.emit(next, object{{"tool_calls", list(all)}}); err != nil {
			return turn, err
		}
	}
	return turn, nil
}

// emit writes an event with a delta.
func (l *Loop) emit(next io.Writer, delta object) error {
	o := append(object{}, l.now.pattern...)
	choice := object{{"index", []byte("0")}, {"delta", delta.json()}, {"finish_reason", []byte("null")}}
	o.set("choices", list([][]byte{choice.json()}))
	return l.Data(next, o.json())
}

// Data writes an event with that data.
func (l *Loop) Data(next io.Writer, data []byte) error {
	_, err := next.Write(append(append([]byte("data: "), data...), "\n\n"...))
	return err
}

// Comment writes a comment of server-sent events, which clients pass over.
func (l *Loop) Comment(next io.Writer, text string) error {
	text = strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	_, err := io.WriteString(next, ": "+text+"\n\n")
	return err
}

// Continue drops the end of a round that another follows. Text in it goes out.
func (l *Loop) Continue(next io.Writer) error {
	n := &l.now
	if l.hides() {
		n.show.Reset()
		return nil
	}
	if err := l.sayRest(next); err != nil {
		return err
	}
	for _, event := range n.tail {
		from, to, _ := dataOf(event)
		o, _ := objectOf(event[from:to])
		for _, raw := range elementsOf(o.get("choices")) {
			choice, _ := objectOf(raw)
			delta, _ := objectOf(choice.get("delta"))
			if text := delta.get("content"); len(textOf(text)) > 0 {
				if err := l.emit(next, object{{"content", text}}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sayRest writes what a TextReader has kept of the text.
func (l *Loop) sayRest(next io.Writer) error {
	n := &l.now
	if len(n.rest) == 0 || n.body != nil {
		return nil
	}
	text := l.lead() + string(n.rest)
	n.show.WriteString(text)
	return l.emit(next, object{{"content", quote(text)}})
}

// Finish writes the end of the answer: what was hidden, an event with a vendor's member "sidenote"
// unless that is nil, the reason to finish, what was used, a comment, and [DONE].
func (l *Loop) Finish(next io.Writer, vendor json.RawMessage, comment string) error {
	n := &l.now
	for _, event := range n.hidden {
		if _, err := next.Write(event); err != nil {
			return err
		}
	}
	if err := l.sayRest(next); err != nil {
		return err
	}
	if vendor != nil {
		o := append(append(object{}, n.pattern...), member{"choices", []byte("[]")}, member{"sidenote", vendor})
		if err := l.Data(next, o.json()); err != nil {
			return err
		}
	}
	reason, changed := l.finished()
	for _, event := range n.tail {
		if changed {
			event = withReason(event, reason)
		}
		if _, err := next.Write(event); err != nil {
			return err
		}
	}
	if comment != "" {
		if err := l.Comment(next, comment); err != nil {
			return err
		}
	}
	if n.done == nil {
		return nil
	}
	_, err := next.Write(n.done)
	return err
}

// withReason puts a reason to finish in place of the one that an event has.
func withReason(event, reason []byte) []byte {
	from, to, ok := dataOf(event)
	o, isObject := objectOf(event[from:to])
	choices := elementsOf(o.get("choices"))
	if !ok || !isObject || len(choices) == 0 {
		return event
	}
	for i := range choices {
		if choice, ok := objectOf(choices[i]); ok && choice.get("finish_reason") != nil {
			choice.set("finish_reason", reason)
			choices[i] = choice.json()
		}
	}
	o.set("choices", list(choices))
	return splice(event, from, to, o.json())
}
