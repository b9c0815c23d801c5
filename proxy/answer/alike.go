package answer

import (
	"bytes"

	"sidenote/rewrite/chat"
)

// A form is the template of an event that has one piece of text and nothing else. Most events of a
// stream share one form, so they are passed on by comparing the bytes around the text instead of
// parsing JSON.
type eventTemplate struct {
	prefix, suffix []byte // around the string, as received
	head, tail     []byte // around it, as passed on
	changed        bool   // head and tail differ from prefix and suffix
	call           *call  // the call of ours whose arguments the string continues; nothing is passed on
	out            []byte // reused buffer for the event passed on
}

// remember stores the form of an event that was read. from is the offset of data in the event, and
// out is the event passed on in its place.
func (n *loopAnswer) remember(p *part, event, data, out []byte, from int) {
	n.form = nil
	choices := p.o.get("choices")
	if p.plain == nil || p.o.get("usage") != nil {
		return
	}
	at := from + cap(data) - cap(p.plain) // plain is a subslice of data
	if !bytes.HasPrefix(event[from:], data) {
		return // the data spans several lines
	}
	f := &eventTemplate{call: p.call, prefix: clone(event[:at]), suffix: clone(event[at+len(p.plain):])}
	if f.call != nil {
		n.form = f
		return
	}
	to := at
	if p.changed { // else the choices are unchanged
		to = from + p.o.offset("choices") + cap(choices) - cap(p.plain)
	}
	if to > len(out) || !bytes.HasPrefix(out[to:], p.plain) {
		return // duplicate member
	}
	f.head, f.tail, f.changed = clone(out[:to]), clone(out[to+len(p.plain):]), p.changed
	n.form = f
}

// offset returns the offset of a member's value in o.json().
func (o object) offset(name string) int {
	at := len("{")
	for _, m := range o {
		at += len(quote(m.name)) + len(":")
		if m.name == name {
			return at
		}
		at += len(m.value) + len(",")
	}
	return at
}

// fastPath handles an event of the same form as the previous one and returns what to pass on, valid
// until the next call. It returns nil if the form differs.
func (l *stage) fastPath(event []byte) (out []byte, err error) {
	n := &l.now
	f := n.form
	if f == nil || n.finish != "" || n.done != nil || len(event) < len(f.prefix)+len(f.suffix) || !bytes.HasPrefix(event, f.prefix) || !bytes.HasSuffix(event, f.suffix) {
		return nil, nil
	}
	raw := event[len(f.prefix) : len(event)-len(f.suffix)]
	r := chat.NewReader(raw)
	if r.Kind() != chat.KindString || len(r.Value()) != len(raw) || len(raw) == len(`""`) {
		return nil, nil
	}
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = []byte(textOf(raw))
	}
	n.size += len(text)
	if f.call != nil {
		f.call.arguments.Write(text)
		return []byte{}, l.take(len(text))
	}
	n.text.Write(text)
	n.show.Write(text)
	if out = event; f.changed {
		f.out = append(append(append(f.out[:0], f.head...), raw...), f.tail...)
		out = f.out
	}
	return out, l.take(len(text))
}
