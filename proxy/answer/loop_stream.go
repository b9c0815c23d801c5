package answer

import (
	"bytes"
	"io"
)

// Stage implements Loop.
func (l *completionsLoop) Stage(next io.Writer) io.Writer { return &stage{l, next} }

type stage struct {
	*completionsLoop
	next io.Writer
}

// dataOf returns the data of an event, or nil, and its range in the event. Data on several lines is
// joined by spaces, as JSON allows; a value of it may then be written into any event.
func dataOf(event []byte) (data []byte, from, to int) {
	at := 0
	for line := range bytes.Lines(event) {
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			value = bytes.TrimSpace(value)
			start := at + len("data:") + bytes.Index(line[len("data:"):], value)
			if to = start + len(value); data == nil {
				data, from = event[start:to:to], start
			} else {
				data = append(append(data, ' '), value...)
			}
		}
		at += len(line)
	}
	return data, from, to
}

// Write reads one event.
func (l *stage) Write(event []byte) (int, error) {
	if _, err := l.event(unmarked(event, &l.now.begun)); err != nil {
		return 0, err
	}
	return len(event), nil
}

// event reads an event and passes on the client's part of it.
func (l *stage) event(event []byte) (int, error) {
	n := &l.now
	if out, err := l.fastPath(event); out != nil || err != nil {
		if err != nil {
			return 0, err
		}
		if len(out) == 0 { // arguments for a call of ours
			return len(event), nil
		}
		return l.pass(out, l.hides())
	}
	data, from, to := dataOf(event)
	if data == nil {
		return l.pass(event, false)
	}
	if string(data) == "[DONE]" {
		n.done = append(n.done, event...)
		return len(event), nil
	}
	o, ok := objectOf(data)
	if !ok || o.get("error") != nil {
		n.failed = n.failed || ok
		return l.pass(event, false)
	}
	p := part{o: o}
	if err := l.take(l.read(&p)); err != nil {
		return 0, err
	}
	if p.nothing {
		n.remember(&p, event, data, nil, from)
		return len(event), nil
	}
	came := event
	if p.changed {
		event = splice(event, from, to, p.o.json())
	}
	n.remember(&p, came, data, event, from)
	hide := p.text && l.hides()
	if p.role {
		held := hide || n.finish != ""
		n.role, l.role = held, !held
	}
	return l.pass(event, hide)
}

// read reads an event and removes what the client does not get. It returns the number of bytes it
// keeps.
func (l *stage) read(p *part) (kept int) {
	before := l.now.size
	l.head(p)
	l.choices(p)
	return l.now.size - before
}

// splice replaces the bytes from..to of an event with data.
func splice(event []byte, from, to int, data []byte) []byte {
	b := make([]byte, 0, len(event)-(to-from)+len(data))
	return append(append(append(b, event[:from]...), data...), event[to:]...)
}

// pass passes on an event, or holds it if it is hidden or comes after the finish reason.
func (l *stage) pass(event []byte, hide bool) (int, error) {
	switch n := &l.now; {
	case n.done != nil:
		n.done = append(n.done, event...)
		return len(event), l.take(len(event))
	case n.finish != "":
		return len(event), l.keep(&n.tail, event)
	case hide:
		return len(event), l.keep(&n.hidden, event)
	}
	l.now.open = !ended(event)
	return l.next.Write(event)
}

// ended reports whether an event has the empty line that ends it.
func ended(event []byte) bool {
	return bytes.HasSuffix(event, []byte("\n\n")) || bytes.HasSuffix(event, []byte("\n\r\n"))
}

func (l *completionsLoop) keep(in *[][]byte, event []byte) error {
	if err := l.take(len(event)); err != nil {
		return err
	}
	*in = append(*in, clone(event))
	return nil
}

// A part is an event while it is read and changed.
type part struct {
	o         object
	changed   bool
	nothing   bool   // the client gets nothing of it
	text      bool   // it has text
	role      bool   // it has the role
	call      *call  // the call of ours whose arguments the event continues
	arguments []byte // the piece of the arguments
	plain     []byte // the JSON string of its text or arguments, a subslice of the event; nil if the event has more than that
}

func (p *part) set(name string, value []byte) {
	p.o.set(name, value)
	p.changed = true
}

// head sets the id and time of all events to those of the first event that has an id, and adds up
// usage. Azure's first event is about the prompt and has an empty id.
func (l *stage) head(p *part) {
	named := p.o.text("id") != ""
	if l.id == nil && named {
		l.id, l.created = clone(p.o.get("id")), clone(p.o.get("created"))
	}
	if l.now.pattern == nil && (named || len(elementsOf(p.o.get("choices"))) > 0) {
		for _, name := range []string{"id", "object", "created", "model"} {
			if v := p.o.get(name); v != nil {
				l.now.pattern = append(l.now.pattern, member{name, clone(v)})
			}
		}
		if l.round > 1 && l.id != nil {
			l.now.pattern.set("id", l.id)
		}
		if l.round > 1 && l.created != nil {
			l.now.pattern.set("created", l.created)
		}
	}
	if l.round > 1 {
		l.one(p, "id", l.id)
		l.one(p, "created", l.created)
	}
	if u := p.o.get("usage"); len(u) > 0 && u[0] == '{' {
		l.now.usage = clone(u)
		if l.usage != nil {
			p.set("usage", l.total(u))
		}
	}
}

// one sets a member that is the same in all events of the answer.
func (l *stage) one(p *part, name string, value []byte) {
	if value != nil && !bytes.Equal(p.o.get(name), value) {
		p.set(name, value)
	}
}

// choices reads the choices of an event and removes what the client does not get.
func (l *stage) choices(p *part) {
	all := elementsOf(p.o.get("choices"))
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
	if len(all) != 1 {
		p.plain = nil
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

// choice reads one choice.
func (l *stage) choice(p *part, c *said) {
	delta, ok := objectOf(c.choice.get("delta"))
	finish := c.choice.get("finish_reason")
	if finish != nil {
		l.now.finish = textOf(finish)
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
	if content := delta.get("content"); !withheld && !c.changed && finish == nil && l.now.reader == nil && l.now.began && !p.role && l.says(delta) == 1 && len(content) > 2 && content[0] == '"' {
		p.plain = content
	}
	if withheld {
		c.changed = true
		c.nothing = finish == nil && l.says(shown) == 0
	}
	if p.call != nil && c.nothing && l.says(delta) == 1 {
		p.plain = p.arguments
	}
	if c.changed {
		if shown == nil {
			shown = object{}
		}
		c.choice.set("delta", shown.json())
	}
}

// says counts the members of a delta that are not null or empty, and no repetition of the role.
func (l *stage) says(delta object) (n int) {
	for _, m := range delta {
		switch string(m.value) {
		case "null", `""`, "[]":
			continue
		}
		if m.name != "role" || !l.role && !l.now.role {
			n++
		}
	}
	return n
}

// member reads a member of a delta and returns its value for the client, nil if the client does not
// get it. own reports that the value was changed.
func (l *stage) member(m member, p *part) (value []byte, own bool) {
	n := &l.now
	if string(m.value) == "null" {
		return m.value, false
	}
	switch m.name {
	case "role":
		if l.role || n.role { // some servers repeat it in each piece
			return nil, false
		}
		p.role = true
		return m.value, false
	case "content":
		return l.content(m.value, p)
	case "tool_calls":
		return l.calls(m.value, p)
	}
	n.join(m)
	p.text = true
	return m.value, false
}

// join appends a member of a delta to the message.
func (n *loopAnswer) join(m member) {
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

// content reads a piece of the content.
func (l *stage) content(raw []byte, p *part) (value []byte, own bool) {
	n, text := &l.now, textOf(raw)
	if text == "" {
		return raw, false
	}
	p.text = true
	if raw[0] == '[' && n.reader != nil {
		return l.parts(raw)
	}
	if raw[0] != '"' { // content parts, such as reasoning
		n.join(member{"content", raw})
		return raw, false
	}
	shown := l.say(text)
	switch shown {
	case "":
		return nil, false
	case text:
		return raw, false
	}
	return quote(shown), true
}

// say reads a piece of text, not empty, and returns what the client gets of it.
func (l *stage) say(text string) (shown string) {
	n := &l.now
	n.size += len(text)
	n.text.WriteString(text)
	if n.reader != nil {
		if text = string(n.reader.Write([]byte(text))); text == "" {
			return ""
		}
	}
	text = l.lead() + text
	n.began = true
	n.show.WriteString(text)
	return text
}

// parts reads content parts whose texts may contain calls.
func (l *stage) parts(raw []byte) (value []byte, own bool) {
	var kept [][]byte
	for _, part := range elementsOf(raw) {
		o, text, ok := textIn(part)
		switch {
		case !ok:
			l.now.join(member{"content", list([][]byte{part})})
		case text != "":
			shown := l.say(text)
			if shown == text {
				break
			}
			if own = true; shown == "" {
				continue
			}
			o.set("text", quote(shown))
			part = o.json()
		}
		kept = append(kept, part)
	}
	if own {
		if len(kept) == 0 {
			return nil, false
		}
		return list(kept), true
	}
	return raw, false
}

// textIn returns the text of a content part; ok is false if it has another type, such as reasoning.
func textIn(part []byte) (o object, text string, ok bool) {
	o, _ = objectOf(part)
	if o.text("type") != "text" {
		return o, "", false
	}
	return o, o.text("text"), true
}
