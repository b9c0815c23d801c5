package answer

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Stage implements Loop.
func (l *responsesLoop) Stage(next io.Writer) io.Writer { return &responsesStage{l, next} }

type responsesStage struct {
	*responsesLoop
	next io.Writer
}

// An itemEvent is an event of a stream, and the item that it belongs to; nil if it belongs to none.
type itemEvent struct {
	event    []byte
	data     object
	from, to int // where data is in event
	item     *outputItem
}

// copied returns a copy of the event.
func (e *itemEvent) copied() itemEvent {
	event := clone(e.event)
	data, from, to := dataOf(event)
	o, _ := objectOf(data)
	return itemEvent{event, o, from, to, e.item}
}

// Write reads one event. A byte order mark before the first event is dropped, since the client may
// already have got events of earlier rounds.
func (s *responsesStage) Write(event []byte) (int, error) {
	came := len(event)
	if !s.now.begun {
		s.now.begun = true
		event = bytes.TrimPrefix(event, []byte(MarkEvents))
	}
	e := itemEvent{event: event}
	var data []byte
	data, e.from, e.to = dataOf(event)
	e.data, _ = objectOf(data)
	return came, s.read(&e)
}

// read reads an event and passes on what the client gets of it.
func (s *responsesStage) read(e *itemEvent) error {
	n := &s.now
	kind := e.data.text("type")
	switch {
	case n.tail != nil, e.data == nil && strings.Contains(string(e.event), "[DONE]"):
		return s.keep(e)
	case e.data == nil:
		_, err := s.next.Write(e.event) // a comment
		return err
	case kind == "error" || e.data.get("error") != nil:
		n.failed = true
		return s.pass(e)
	case kind == "response.completed", kind == "response.incomplete", kind == "response.failed":
		return s.keep(e)
	}
	if response := e.data.get("response"); response != nil {
		return s.begin(e)
	}
	e.item = s.itemOf(e, kind)
	if e.item == nil {
		if len(n.held) > 0 {
			return s.hold(&n.held, e)
		}
		return s.pass(e)
	}
	before := len(e.item.raw) + e.item.arguments.Len()
	s.readItem(e, kind)
	if err := s.take(max(0, len(e.item.raw)+e.item.arguments.Len()-before)); err != nil {
		return err
	}
	switch {
	case e.item.ours:
		s.edited = true
		return nil
	case s.holds(e.item):
		return s.hold(&n.held, e)
	}
	return s.pass(e)
}

// keep holds an event from the one that ends the response on.
func (s *responsesStage) keep(e *itemEvent) error {
	n := &s.now
	if n.tail == nil {
		if err := s.readEnd(e.data.get("response")); err != nil {
			return err
		}
		n.failed = n.failed || e.data.text("type") == "response.failed"
	}
	n.tail = append(n.tail, clone(e.event))
	return s.take(len(e.event))
}

// readEnd reads the finished response. Its items replace those that were read from events.
func (s *responsesStage) readEnd(response []byte) error {
	n := &s.now
	if !s.end(clone(response)) {
		return nil
	}
	for at, raw := range elementsOf(n.response.get("output")) {
		o, _ := objectOf(raw)
		id, kind := o.text("id"), o.text("type")
		var same *outputItem
		for i, item := range n.items {
			if item.kind == kind && (id != "" && item.id == id || same == nil && i == at && (id == "" || item.id == "")) {
				same = item
			}
		}
		if same == nil {
			same = n.add("", raw)
		}
		same.set(raw)
		same.done = true
		s.decide(same)
		n.said = n.said || same.says()
	}
	return s.take(len(response))
}

// hold holds an event.
func (s *responsesStage) hold(in *[]itemEvent, e *itemEvent) error {
	*in = append(*in, e.copied())
	return s.take(len(e.event))
}

// begin reads an event with the response before its first item. The client gets such events once.
func (s *responsesStage) begin(e *itemEvent) error {
	switch {
	case s.id != nil && s.round > 1:
		s.edited = true
		return nil
	case s.id != nil:
		return s.pass(e)
	}
	return s.hold(&s.now.head, e)
}

// itemOf returns the item that an event belongs to: the one with its item_id, else the last one
// with its output_index. It returns nil if the event belongs to none.
func (s *responsesStage) itemOf(e *itemEvent, kind string) *outputItem {
	n := &s.now
	number, id := string(e.data.get("output_index")), e.data.text("item_id")
	if kind == "response.output_item.added" {
		return n.add(number, e.data.get("item"))
	}
	if item, ok := objectOf(e.data.get("item")); ok && id == "" {
		id = item.text("id")
	}
	var last *outputItem
	for _, item := range n.items {
		if id != "" && item.id == id && (number == "" || item.number == number) {
			return item
		}
		if number != "" && item.number == number {
			last = item
		}
	}
	if last == nil && kind == "response.output_item.done" { // it was not announced
		return n.add(number, e.data.get("item"))
	}
	return last
}

// readItem reads what an event tells of its item.
func (s *responsesStage) readItem(e *itemEvent, kind string) {
	i, n := e.item, &s.now
	switch kind {
	case "response.output_item.done":
		i.done = true
		i.set(e.data.get("item"))
		n.said = n.said || i.says()
	case "response.function_call_arguments.delta":
		i.arguments.WriteString(e.data.text("delta"))
	case "response.function_call_arguments.done":
		if name := e.data.text("name"); name != "" {
			i.name = name
		}
		i.arguments.Reset()
		i.arguments.WriteString(e.data.text("arguments"))
	case "response.output_text.delta", "response.refusal.delta", "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		n.said = n.said || strings.TrimSpace(e.data.text("delta")) != ""
	}
	s.decide(i)
}

// pass passes on an event after those that are held.
func (s *responsesStage) pass(e *itemEvent) error {
	if err := s.flush(s.next); err != nil {
		return err
	}
	return s.emit(s.next, e)
}

// flush passes on the held events of all items that the client gets.
func (l *responsesLoop) flush(next io.Writer) error {
	n := &l.now
	for i := range n.head {
		if err := l.emit(next, &n.head[i]); err != nil {
			return err
		}
	}
	held := n.held
	n.head, n.held = nil, nil
	for i := range held {
		switch e := &held[i]; {
		case e.item != nil && e.item.ours:
			l.edited = true
		case e.item != nil && e.item.undecided:
			n.held = append(n.held, *e)
		default:
			if err := l.emit(next, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// emit writes an event with the numbers that it has for the client.
func (l *responsesLoop) emit(next io.Writer, e *itemEvent) error {
	changed := false
	set := func(name string, n int64) {
		if value := strconv.AppendInt(nil, n, 10); e.data.get(name) != nil && !bytes.Equal(e.data.get(name), value) {
			e.data.set(name, value)
			changed = true
		}
	}
	if response, ok := objectOf(e.data.get("response")); ok && l.id == nil {
		l.id, l.created = clone(response.get("id")), clone(response.get("created_at"))
	}
	if e.item != nil {
		if l.show(e.item); l.edited {
			set("output_index", int64(e.item.index))
		}
	}
	if number, err := strconv.ParseInt(string(e.data.get("sequence_number")), 10, 64); err == nil {
		if !l.edited {
			l.number = number
		}
		set("sequence_number", l.number)
		l.number++
	}
	event := e.event
	if changed {
		event = splice(event, e.from, e.to, e.data.json())
	}
	_, err := next.Write(event)
	return err
}

// EndStream implements Loop.
func (l *responsesLoop) EndStream(io.Writer) (LoopTurn, error) { return l.turn(), nil }

// Finish implements Loop. It writes the held events, the comment, and the event with the whole
// response and what came after that.
func (l *responsesLoop) Finish(next io.Writer, vendor json.RawMessage, comment string) error {
	n := &l.now
	if err := l.flush(next); err != nil {
		return err
	}
	shown := 0
	for _, item := range n.items {
		if !item.ours && n.response != nil { // some are in the response only
			l.show(item)
			shown++
		}
	}
	if comment != "" {
		if err := EventComment(next, comment); err != nil {
			return err
		}
	}
	for i, event := range n.tail {
		e := (&itemEvent{event: event}).copied()
		if i == 0 && n.response != nil && (l.round > 1 || shown < len(n.items) || vendor != nil) {
			e.data.set("response", l.joined(n.response, vendor).json())
			e.event = splice(e.event, e.from, e.to, e.data.json())
			e = e.copied()
		}
		if err := l.emit(next, &e); err != nil {
			return err
		}
	}
	return nil
}

// Fail implements Loop. The event has the error both as OpenAI's documentation says and as its SDKs
// find errors.
func (l *responsesLoop) Fail(next io.Writer, body []byte) error {
	o, _ := objectOf(errorIn(body))
	event := object{{"type", []byte(`"error"`)}, {"sequence_number", strconv.AppendInt(nil, l.number, 10)}}
	for _, name := range []string{"code", "message", "param"} {
		value := o.get(name)
		if value == nil {
			value = []byte("null")
		}
		event.set(name, value)
	}
	event.set("error", o.json())
	if _, err := io.WriteString(next, "event: error\n"); err != nil {
		return err
	}
	return EventData(next, event.json())
}

// Events implements Loop. The stream has the events of a text that came in one piece.
func (l *responsesLoop) Events(body []byte, _ bool, comment string) []byte {
	o, _ := objectOf(body)
	var b bytes.Buffer
	number := 0
	event := func(name string, members object) {
		e := append(object{{"type", quote(name)}, {"sequence_number", strconv.AppendInt(nil, int64(number), 10)}}, members...)
		number++
		b.WriteString("event: " + name + "\n")
		_ = EventData(&b, e.json()) // a bytes.Buffer never fails
	}
	begun := slices.Clone(o)
	begun.set("output", []byte("[]"))
	begun.set("status", []byte(`"in_progress"`))
	begun.set("usage", []byte("null"))
	event("response.created", object{{"response", begun.json()}})
	event("response.in_progress", object{{"response", begun.json()}})
	for i, raw := range elementsOf(o.get("output")) {
		item, _ := objectOf(raw)
		index := member{"output_index", strconv.AppendInt(nil, int64(i), 10)}
		parts := elementsOf(item.get("content"))
		first := slices.Clone(item)
		if parts != nil {
			first.set("content", []byte("[]"))
		}
		event("response.output_item.added", object{index, {"item", first.json()}})
		for n, part := range parts {
			p, _ := objectOf(part)
			at := object{{"item_id", quote(item.text("id"))}, index, {"content_index", strconv.AppendInt(nil, int64(n), 10)}}
			kind, text := p.text("type"), "text"
			if kind == "refusal" {
				text = "refusal"
			}
			empty := slices.Clone(p)
			empty.set(text, []byte(`""`))
			event("response.content_part.added", append(slices.Clone(at), member{"part", empty.json()}))
			if value := p.get(text); kind == "output_text" || kind == "refusal" {
				event("response."+kind+".delta", append(slices.Clone(at), member{"delta", value}))
				event("response."+kind+".done", append(slices.Clone(at), member{text, value}))
			}
			event("response.content_part.done", append(slices.Clone(at), member{"part", part}))
		}
		event("response.output_item.done", object{index, {"item", raw}})
	}
	if comment != "" {
		_ = EventComment(&b, comment)
	}
	name := "response.completed"
	if o.text("status") == "incomplete" {
		name = "response.incomplete"
	}
	event(name, object{{"response", body}})
	return b.Bytes()
}
