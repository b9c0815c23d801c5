package answer

import (
	"bytes"

	"sidenote/rewrite/chat"
)

// A form is what stands around the text of an event that has a piece of text and nothing else. Nearly
// all events of a stream are of one form, and need not be read and written as JSON: what stands
// between the same bytes, and is one string, is a piece of text too.
type form struct {
	prefix, suffix []byte // around the string, as it came
	head, tail     []byte // around it as it is passed on
	changed        bool   // these are others
	call           *call  // of ours, whose arguments the string goes on with; nothing is passed on
	out            []byte // the memory of what is passed on
}

// remember remembers the form of an event that was read, whose data stands from an offset on. out is
// what is passed on in its place.
func (n *loopAnswer) remember(p *part, event, data, out []byte, from int) {
	n.form = nil
	choices := p.o.get("choices")
	if p.plain == nil || p.o.get("usage") != nil {
		return
	}
	at := from + cap(data) - cap(p.plain) // the string is a part of data
	if !bytes.HasPrefix(event[from:], data) {
		return // it stood on several lines
	}
	f := &form{call: p.call, prefix: clone(event[:at]), suffix: clone(event[at+len(p.plain):])}
	if f.call != nil {
		n.form = f
		return
	}
	to := at
	if p.changed { // the choices are as they came
		to = from + p.o.offset("choices") + cap(choices) - cap(p.plain)
	}
	if to > len(out) || !bytes.HasPrefix(out[to:], p.plain) {
		return // a member stands twice
	}
	f.head, f.tail, f.changed = clone(out[:to]), clone(out[to+len(p.plain):]), p.changed
	n.form = f
}

// offset returns where the value of a member begins in json.
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

// alike reads an event of the form of the one before, and returns what is passed on in its place, until
// the next one; nil if it is of another.
func (l *stage) alike(event []byte) (out []byte, err error) {
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
