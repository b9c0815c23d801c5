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
	loopEvent
	item *outputItem
}

// Write reads one event.
func (s *responsesStage) Write(event []byte) (int, error) {
	e := itemEvent{loopEvent: eventOf(unmarked(event, &s.now.begun))}
	return len(event), s.read(&e)
}

// read reads an event and passes on what the client gets of it.
func (s *responsesStage) read(e *itemEvent) error {
	n := &s.now
	kind := e.data.text("type")
	switch {
	case n.tail != nil, e.data == nil && strings.Contains(string(e.event), "[DONE]"):
		return s.keep(e)
	case e.data == nil && (e.to == 0 || len(n.head)+len(n.held) == 0): // a comment is not held
		n.open = !ended(e.event)
		_, err := s.next.Write(e.event)
		return err
	case e.data == nil:
		return s.hold(&n.held, e)
	case kind == "error" || e.data.get("error") != nil:
		n.failed = true
		return s.pass(e)
	case kind == "response.completed", kind == "response.incomplete", kind == "response.failed":
		return s.keep(e)
	}
	if response := e.data.get("response"); response != nil {
		return s.begin(e)
	}
	undecided := n.undecided
	e.item = s.itemOf(e, kind)
	if e.item == nil {
		if len(n.held) > 0 {
			return s.hold(&n.held, e)
		}
		return s.pass(e)
	}
	before := len(e.item.raw) + e.item.arguments.Len()
	s.readItem(e, kind)
	if n.undecided < undecided && len(n.held) > 0 {
		if err := s.release(); err != nil {
			return err
		}
	}
	if err := s.take(max(0, len(e.item.raw)+e.item.arguments.Len()-before)); err != nil {
		return err
	}
	switch {
	case e.item.ours:
		s.edited = true
		return nil
	case s.holds(e.item), e.item.index >= 0 && len(n.held) > 0:
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
	output := elementsOf(n.response.get("output"))
	ids := map[string]bool{}
	for _, raw := range output {
		o, _ := objectOf(raw)
		ids[o.text("id")] = true
	}
	others := map[string][]*outputItem{} // by kind: items that have other ids at the end, if any
	for _, item := range n.items {
		if item.id == "" || !ids[item.id] {
			others[item.kind] = append(others[item.kind], item)
		}
	}
	for _, raw := range output {
		o, _ := objectOf(raw)
		kind := o.text("type")
		same := n.find(o.text("id"), "")
		if same == nil || same.kind != kind {
			if same = nil; len(others[kind]) > 0 {
				same, others[kind] = others[kind][0], others[kind][1:]
			} else {
				same = n.add("", nil)
			}
		}
		n.set(same, raw)
		same.done = true
		s.decide(same)
		n.said = n.said || same.says()
	}
	return s.take(len(response))
}

// hold holds an event.
func (s *responsesStage) hold(in *[]itemEvent, e *itemEvent) error {
	*in = append(*in, itemEvent{e.copied(), e.item})
	return s.take(len(e.event))
}

// begin reads an event with the response before its first item. The client gets such events once.
func (s *responsesStage) begin(e *itemEvent) error {
	switch {
	case s.id != nil && s.round > 1:
		s.edited = true
		return nil
	case len(s.now.held) > 0:
		return s.hold(&s.now.held, e)
	case s.id != nil:
		return s.pass(e)
	}
	return s.hold(&s.now.head, e)
}

// itemOf returns the item that an event belongs to: the one with its item_id, else the last one
// with its output_index, else a new one, as some servers do not announce items. It returns nil if
// the event belongs to none.
func (s *responsesStage) itemOf(e *itemEvent, kind string) *outputItem {
	n := &s.now
	number, id := string(e.data.get("output_index")), e.data.text("item_id")
	raw := e.data.get("item")
	if kind == "response.output_item.added" {
		return n.add(number, raw)
	}
	if item, ok := objectOf(raw); ok && id == "" {
		id = item.text("id")
	}
	if item := n.find(id, number); item != nil && id != "" {
		return item
	}
	done := kind == "response.output_item.done"
	switch last := n.find("", number); {
	case last != nil && (!last.done || !done && (id == "" || last.id == "")):
		return last
	case last == nil && number == "" && !done:
		return nil
	}
	item := n.add(number, raw)
	if raw == nil {
		n.name(item, id)
		item.kind = kindOfEvent(kind)
	}
	return item
}

// kindOfEvent returns the type of the item that an event of that type is about.
func kindOfEvent(event string) string {
	about, _, _ := strings.Cut(strings.TrimPrefix(event, "response."), ".")
	switch {
	case about == "function_call_arguments":
		return functionCall
	case about == "content_part", about == "output_text", about == "refusal":
		return "message"
	case strings.HasPrefix(about, "reasoning"):
		return "reasoning"
	}
	return about
}

// readItem reads what an event tells of its item.
func (s *responsesStage) readItem(e *itemEvent, kind string) {
	i, n := e.item, &s.now
	switch kind {
	case "response.output_item.done":
		i.done = true
		n.set(i, e.data.get("item"))
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
	if s.now.undecided > 0 {
		return s.hold(&s.now.held, e)
	}
	if err := s.flush(s.next); err != nil {
		return err
	}
	return s.emit(s.next, e)
}

// release passes on the held events that need not wait any longer, after an item was decided: those
// up to the last one of an item that begins, and then those of items that the client knows.
func (s *responsesStage) release() error {
	n := &s.now
	end := 0
	begun := map[*outputItem]bool{nil: true}
	for ; n.waiting < len(n.held); n.waiting++ {
		item := n.held[n.waiting].item
		if item != nil && item.undecided {
			break
		}
		if !begun[item] && !item.ours && item.index < 0 && !s.holds(item) {
			begun[item] = true
			end = n.waiting + 1
		}
	}
	for end < len(n.held) && (begun[n.held[end].item] || n.held[end].item.ours || n.held[end].item.index >= 0) {
		end++
	}
	rest, waiting := n.held[end:], max(0, n.waiting-end)
	n.held = n.held[:end]
	err := s.flush(s.next)
	n.held, n.waiting = rest, waiting
	return err
}

// flush passes on the held events of all items that the client gets.
func (l *responsesLoop) flush(next io.Writer) error {
	n := &l.now
	for i := range n.head {
		if err := l.emit(next, &n.head[i]); err != nil {
			return err
		}
	}
	n.head = nil
	for i := range n.held {
		switch e := &n.held[i]; {
		case e.item != nil && (e.item.ours || e.item.left):
			l.edited = true
		default:
			if err := l.emit(next, e); err != nil {
				return err
			}
		}
	}
	n.held, n.waiting = nil, 0
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
		event = e.rewritten()
	}
	l.now.open = !ended(event)
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
		if !item.ours && !item.left && n.response != nil { // some are in the response only
			l.show(item)
			shown++
		}
	}
	if comment != "" && !n.open {
		if err := EventComment(next, comment); err != nil {
			return err
		}
	}
	for i, event := range n.tail {
		e := itemEvent{loopEvent: eventOf(event)}
		if i == 0 && n.response != nil && (l.round > 1 || shown < len(n.items) || vendor != nil) {
			e.data.set("response", l.joined(n.response, vendor).json())
			e.loopEvent = eventOf(e.rewritten())
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
