package answer

import (
	"bytes"
	"strconv"

	"sidenote/rewrite/chat"
)

// A citationPart is what an event or a whole answer has of one text. Missing parts have empty
// spans.
type citationPart struct {
	number      int         // of the text: the choice, or the place in the output
	content     []chat.Span // the text between its quotes: one span, or one for each text part
	message     chat.Span   // the object around the text
	annotations chat.Span   // the annotations already in that object
	finished    bool        // it has a finish reason
	item        []byte      // id of the output item with the text, as JSON; nil if it has none
}

// completions is the citedFormat of chat completions.
type completions struct {
	parts []citationPart // parts of the last event
	head  []byte         // beginning of an event of this answer: members that all events share, each with a comma
}

// whole implements citedFormat.
func (p *completions) whole(body []byte) (texts []citationPart, ok bool) {
	ok = p.read(body, 0, "message")
	return p.parts, ok
}

// event implements citedFormat. The annotations of a choice are inserted in an event of their own
// before the one with its finish reason.
func (p *completions) event(s *stream, event []byte) (inserted [][]byte) {
	c := s.checker
	data, from := Data(event)
	switch {
	case data == nil || c.report.Unread != "":
		return nil
	case string(bytes.TrimSpace(data)) == "[DONE]":
		for _, t := range c.texts {
			t.finish()
			t.finished = true
		}
	case !p.read(data, from, "delta"):
		return nil
	default:
		p.deltas(s, data, event)
	}
	for _, t := range c.texts {
		if t.finished && len(t.added) > 0 {
			c.report.Annotations += len(t.added)
			inserted = append(inserted, p.annotated(c, t))
			t.added = nil
		}
	}
	return inserted
}

// deltas reads the texts of an event.
func (p *completions) deltas(s *stream, data, event []byte) {
	for _, part := range p.parts {
		p.begin(data)
		t := s.checker.textOf(part.number)
		if t == nil {
			continue
		}
		for _, content := range part.content {
			t.feed(content.Of(event), s.number, content.Start)
		}
		if t.finished = part.finished; part.finished {
			t.finish()
		}
	}
}

// annotated returns an event with the annotations of a choice.
func (p *completions) annotated(c *CitationChecker, t *citedText) []byte {
	event := append(append([]byte("data: "), p.head...), `"choices":[{"index":`...)
	event = append(strconv.AppendInt(event, int64(t.number), 10), `,"delta":{"annotations":[`...)
	return append(c.appendAnnotations(event, t.added), "]},\"finish_reason\":null}]}\n\n"...)
}

// list implements citedFormat.
func (*completions) list() string { return "annotations" }

// appendAnnotation implements citedFormat.
func (p *completions) appendAnnotation(dst []byte, a annotation, s CitedSource) []byte {
	return append(appendCitation(append(dst, `{"type":"url_citation","url_citation":{`...), a, s), "}}"...)
}

// read reads the choices of a JSON text, with their texts in the named member. Offsets of parts are
// offsets in data plus base. It returns false if there are no choices.
func (p *completions) read(data []byte, base int, member string) bool {
	p.parts = p.parts[:0]
	r, found := chat.NewReader(data), false
	r.Members(func(name []byte) {
		if string(name) != "choices" || r.Kind() != chat.KindArray {
			r.Value()
			return
		}
		found, p.parts = true, p.parts[:0]
		r.Array(func(n int) {
			p.parts = append(p.parts, citationPart{number: n})
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
				p.number = n
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
func (p *completions) begin(data []byte) {
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
