package answer

import (
	"slices"
	"strconv"

	"sidenote/rewrite/chat"
)

// responses is the citedFormat of the Responses API. A text comes in deltas, and again in up to four
// events that repeat it: all get the same edits.
type responses struct {
	inserted int64 // events with a sequence number that were inserted
	last     responseEvent
}

// A responseEvent is what is read of an event, or of a whole response.
type responseEvent struct {
	kind       string
	sequence   chat.Span // of its number
	item, part int       // output_index and content_index
	itemID     []byte    // as JSON
	delta      chat.Span // between its quotes
	parts      []citationPart
	whole      bool // it is a response
}

// whole implements citedFormat.
func (f *responses) whole(body []byte) (texts []citationPart, ok bool) {
	ok = f.last.read(body, 0) && f.last.whole
	return f.last.parts, ok
}

// list implements citedFormat.
func (*responses) list() string { return "annotations" }

// appendAnnotation implements citedFormat.
func (f *responses) appendAnnotation(dst []byte, a annotation, s CitedSource) []byte {
	return append(appendCitation(append(dst, `{"type":"url_citation",`...), a, s), '}')
}

// event implements citedFormat. Annotations are inserted before the first event that repeats their
// text, and added to the objects around it. Later events get higher sequence numbers.
func (f *responses) event(s *stream, event []byte) (inserted [][]byte) {
	c, e := s.checker, &f.last
	data, from := Data(event)
	if data == nil || c.report.Unread != "" && len(c.texts) == 0 || !e.read(data, from) {
		return nil
	}
	number, err := strconv.ParseInt(string(e.sequence.Of(event)), 10, 64)
	numbered := err == nil && number >= 0 && number < 1<<53
	ended, final := false, false
	switch e.kind {
	case "response.output_text.delta":
		if t := f.textOf(c, textNumber(e.item, e.part)); t != nil && !t.finished && c.report.Unread == "" {
			t.feed(e.delta.Of(event), s.number, e.delta.Start)
		}
	case "response.output_text.annotation.added":
		if t := f.textOf(c, textNumber(e.item, e.part)); t != nil {
			t.foreign++
		}
	case "response.output_text.done", "response.content_part.done", "response.output_item.done":
		ended = true
	case "response.completed", "response.incomplete", "response.failed":
		ended, final = true, true
	}
	if ended && c.report.Unread != UnreadBug {
		for _, p := range e.parts {
			for _, a := range f.end(s, p, event, final) {
				inserted = append(inserted, f.added(c, p, a, event, number+f.inserted, numbered))
				if numbered {
					f.inserted++
				}
			}
		}
	}
	if numbered && f.inserted > 0 {
		c.edits = append(c.edits, edit{s.number, e.sequence.Start, e.sequence.End, strconv.AppendInt(nil, number+f.inserted, 10)})
	}
	return inserted
}

// textOf returns the text with that number; nil if it is not checked.
func (f *responses) textOf(c *CitationChecker, number int) *citedText {
	if number < 0 {
		return nil
	}
	return c.textOf(number)
}

// A placed annotation is the one with that index in its text.
type placed struct {
	annotation
	index int
}

// end reads an event that repeats a text, or is the first with it, and returns the annotations to
// insert before it.
func (f *responses) end(s *stream, p citationPart, event []byte, final bool) (list []placed) {
	c := s.checker
	t := f.textOf(c, p.number)
	if t == nil || !t.finished && c.report.Unread != "" {
		return nil
	}
	streamed := t.length > 0
	if !t.finished {
		if !streamed {
			t.feed(p.content[0].Of(event), s.number, p.content[0].Start)
		}
		t.finish()
		t.finished = true
		slices.Sort(t.removed)
		c.report.Annotations += len(t.added)
		for i, a := range t.added {
			if streamed || !final { // else the client has not seen the text
				list = append(list, placed{a, t.foreign + i})
			}
		}
	}
	if streamed && !t.repeat(s, p.content[0], event) {
		return list
	}
	if len(t.added) > 0 && p.message.End > 0 {
		e := c.join(p, event, t.added)
		e.event = s.number
		c.edits = append(c.edits, e)
	}
	return list
}

// repeat removes the same bytes from a text that is repeated. It returns false, and removes nothing,
// if that text is another one.
func (t *citedText) repeat(s *stream, at chat.Span, event []byte) bool {
	var edits []edit
	n, gone := 0, t.removed
	put := func(_ byte, from, to int) {
		if len(gone) > 0 && gone[0] == n {
			gone = gone[1:]
			if last := len(edits) - 1; last >= 0 && edits[last].to >= from {
				edits[last].to = to
			} else {
				edits = append(edits, edit{event: s.number, from: from, to: to})
			}
		}
		n++
	}
	var d textDecoder
	d.read(at.Of(event), at.Start, put)
	d.end(put)
	if n != t.length {
		return false
	}
	s.checker.edits = append(s.checker.edits, edits...)
	return true
}

// added returns an event that adds an annotation, to be inserted before another event.
func (f *responses) added(c *CitationChecker, p citationPart, a placed, before []byte, number int64, numbered bool) []byte {
	const name = "response.output_text.annotation.added"
	event := append(eventName(name, before), `data: {"type":"`+name+`"`...)
	if numbered {
		event = strconv.AppendInt(append(event, `,"sequence_number":`...), number, 10)
	}
	if p.item != nil {
		event = append(append(event, `,"item_id":`...), p.item...)
	}
	event = strconv.AppendInt(append(event, `,"output_index":`...), int64(p.number>>partBits), 10)
	event = strconv.AppendInt(append(event, `,"content_index":`...), int64(p.number&maxPart), 10)
	event = strconv.AppendInt(append(event, `,"annotation_index":`...), int64(a.index), 10)
	event = f.appendAnnotation(append(event, `,"annotation":`...), a.annotation, c.sources[a.id])
	return append(event, "}\n\n"...)
}

// textNumber returns the number of the text in a part of an output item, -1 if it is not checked.
func textNumber(item, part int) int {
	if item < 0 || item > maxPart || part < 0 || part > maxPart {
		return -1
	}
	return item<<partBits | part
}

const (
	partBits = 16
	maxPart  = 1<<partBits - 1 // the largest index
)

// read reads an event or a whole response. Offsets are offsets in data plus base. It returns false
// if data is not JSON.
func (e *responseEvent) read(data []byte, base int) bool {
	*e = responseEvent{parts: e.parts[:0]}
	ofEvent, text := false, citationPart{}
	r := chat.NewReader(data)
	r.Members(func(name []byte) {
		kind, from := r.Kind(), r.Next()
		switch string(name) {
		case "output":
			e.output(&r, base)
			return
		case "response":
			r.Members(func(name []byte) {
				if string(name) == "output" {
					e.output(&r, base)
					return
				}
				r.Value()
			})
			return
		case "item":
			ofEvent = true
			e.content(&r, base)
			return
		case "part":
			if p, ok := outputText(&r, base); ok {
				text = p
			}
			return
		}
		value := r.Value()
		at := chat.Span{Start: base + from, End: base + r.Pos()}
		switch string(name) {
		case "type":
			if kind == chat.KindString {
				e.kind = textOf(value)
			}
		case "sequence_number":
			e.sequence = at
		case "output_index":
			e.item = indexIn(value)
		case "content_index":
			e.part = indexIn(value)
		case "item_id":
			if kind == chat.KindString {
				e.itemID = value
			}
		case "delta":
			if kind == chat.KindString {
				e.delta = chat.Span{Start: at.Start + 1, End: at.End - 1}
			}
		case "text":
			if kind == chat.KindString {
				text.content = []chat.Span{{Start: at.Start + 1, End: at.End - 1}}
			}
		}
	})
	if r.End() != nil {
		return false
	}
	if ofEvent {
		for i := range e.parts {
			e.parts[i].number = textNumber(e.item, e.parts[i].number)
		}
	}
	if len(text.content) > 0 {
		text.number, text.item = textNumber(e.item, e.part), e.itemID
		e.parts = append(e.parts, text)
	}
	return true
}

// indexIn returns an index, -1 if the value is none.
func indexIn(value []byte) int {
	n, err := strconv.Atoi(string(value))
	if err != nil {
		return -1
	}
	return n
}

// output reads the output of a response.
func (e *responseEvent) output(r *chat.Reader, base int) {
	e.whole, e.parts = r.Kind() == chat.KindArray, e.parts[:0]
	r.Array(func(n int) {
		from := len(e.parts)
		e.content(r, base)
		for i := range e.parts[from:] {
			e.parts[from+i].number = textNumber(n, e.parts[from+i].number)
		}
	})
}

// content reads the texts of an output item, whose numbers are those of its parts.
func (e *responseEvent) content(r *chat.Reader, base int) {
	from := len(e.parts)
	var id []byte
	r.Members(func(name []byte) {
		switch string(name) {
		case "id":
			if r.Kind() == chat.KindString {
				id = r.Value()
				return
			}
			r.Value()
		case "content":
			e.parts = e.parts[:from]
			r.Array(func(n int) {
				if p, ok := outputText(r, base); ok {
					p.number = n
					e.parts = append(e.parts, p)
				}
			})
		default:
			r.Value()
		}
	})
	for i := range e.parts[from:] {
		e.parts[from+i].item = id
	}
}

// outputText reads a part of an item's content. ok is false if it is not a text of the answer.
func outputText(r *chat.Reader, base int) (p citationPart, ok bool) {
	start := r.Next()
	r.Members(func(name []byte) {
		kind, from := r.Kind(), r.Next()
		value := r.Value()
		at := chat.Span{Start: base + from, End: base + r.Pos()}
		switch string(name) {
		case "type":
			ok = string(value) == `"output_text"`
		case "text":
			if kind == chat.KindString {
				p.content = []chat.Span{{Start: at.Start + 1, End: at.End - 1}}
			}
		case "annotations":
			p.annotations = at
		}
	})
	p.message = chat.Span{Start: base + start, End: base + r.Pos()}
	return p, ok && len(p.content) > 0
}
