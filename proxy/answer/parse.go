package answer

import (
	"strconv"

	"sidenote/rewrite/chat"
)

// A citationPart is what an event or a whole answer has of one choice. Missing parts have empty
// spans.
type citationPart struct {
	choice      int
	content     []chat.Span // the text between its quotes: one span, or one for each text part
	message     chat.Span   // the message or delta around the text
	annotations chat.Span   // the annotations already in the message
	finished    bool        // it has a finish reason
}

// A parser reads events.
type parser struct {
	parts []citationPart // parts of the last event
	head  []byte         // beginning of an event of this answer: members that all events share, each with a comma
}

// read reads the choices of a JSON text, with their texts in the named member. Offsets of parts are
// offsets in data plus base. It returns false if there are no choices.
func (p *parser) read(data []byte, base int, member string) bool {
	p.parts = p.parts[:0]
	r, found := chat.NewReader(data), false
	r.Members(func(name []byte) {
		if string(name) != "choices" || r.Kind() != chat.KindArray {
			r.Value()
			return
		}
		found, p.parts = true, p.parts[:0]
		r.Array(func(n int) {
			p.parts = append(p.parts, citationPart{choice: n})
			readChoice(&r, &p.parts[n], base, member)
		})
	})
	return r.End() == nil && found
}

func readChoice(r *chat.Reader, p *citationPart, base int, member string) {
	r.Members(func(name []byte) {
		switch string(name) {
		case "index":
			if n, err := strconv.Atoi(string(r.Value())); err == nil {
				p.choice = n
			}
		case "finish_reason":
			p.finished = r.Kind() == chat.KindString
			r.Value()
		case member:
			from := r.Next()
			if r.Kind() != chat.KindObject {
				r.Value()
				return
			}
			readMessage(r, p, base)
			p.message = chat.Span{Start: base + from, End: base + r.Pos()}
		default:
			r.Value()
		}
	})
}

func readMessage(r *chat.Reader, p *citationPart, base int) {
	r.Members(func(name []byte) {
		kind, from := r.Kind(), base+r.Next()
		value := r.Value()
		v := chat.Span{Start: from, End: base + r.Pos()}
		switch {
		case string(name) == "content" && kind == chat.KindString:
			p.content = []chat.Span{{Start: v.Start + 1, End: v.End - 1}}
		case string(name) == "content" && kind == chat.KindArray:
			p.content = textParts(value, v.Start)
		case string(name) == "annotations":
			p.annotations = v
		}
	})
}

// textParts returns the spans of the texts in a list of parts, between their quotes. Reasoning is a
// part of another type.
func textParts(list []byte, base int) (spans []chat.Span) {
	r := chat.NewReader(list)
	r.Array(func(int) {
		isText, text := false, chat.Span{}
		r.Members(func(name []byte) {
			kind, from := r.Kind(), r.Next()
			value := r.Value()
			switch {
			case string(name) == "type":
				isText = string(value) == `"text"`
			case string(name) == "text" && kind == chat.KindString:
				text = chat.Span{Start: base + from + 1, End: base + r.Pos() - 1}
			}
		})
		if isText && text.End > text.Start {
			spans = append(spans, text)
		}
	})
	return spans
}

// begin stores the members shared by all events, from the first event that has choices, for events
// that the checker inserts. A null usage is null in all of them.
func (p *parser) begin(data []byte) {
	if p.head != nil {
		return
	}
	p.head = []byte{'{'}
	r := chat.NewReader(data)
	r.Members(func(name []byte) {
		null := r.Kind() == chat.KindNull
		value := r.Value()
		switch string(name) {
		case "usage":
			if !null {
				return
			}
		case "id", "object", "created", "model", "system_fingerprint", "service_tier":
		default:
			return
		}
		p.head = append(append(append(append(append(p.head, '"'), name...), `":`...), value...), ',')
	})
}
