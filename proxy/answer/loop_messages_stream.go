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
func (l *messagesLoop) Stage(next io.Writer) io.Writer { return &messagesStage{l, next} }

type messagesStage struct {
	*messagesLoop
	next io.Writer
}

// A blockEvent is an event of a stream, and the block that it belongs to; nil if it belongs to none.
type blockEvent struct {
	loopEvent
	block *heldBlock
}

// Write reads one event.
func (s *messagesStage) Write(event []byte) (int, error) {
	e := blockEvent{loopEvent: eventOf(unmarked(event, &s.now.begun))}
	return len(event), s.read(&e)
}

// read reads an event and passes on what the client gets of it.
func (s *messagesStage) read(e *blockEvent) error {
	n := &s.now
	kind := e.data.text("type")
	switch {
	case kind == "message_delta", kind == "message_stop", e.data == nil && strings.Contains(string(e.event), "[DONE]"):
		s.readEnd(e, kind)
		return s.hold(&n.tail, e)
	case kind == "error" || e.data.get("error") != nil:
		if n.failed = true; n.tail == nil {
			return s.pass(e)
		}
	case strings.HasPrefix(kind, "content_block_"):
		if err := s.readBlock(e, kind); err != nil {
			return err
		}
	case kind == "message_start":
		message, _ := objectOf(e.data.get("message"))
		s.readUsage(message)
		if s.started && s.round > 1 {
			s.edited = true
			return nil
		}
	}
	b := e.block
	switch {
	case b != nil && !s.gets(b):
		s.edited = true
		return nil
	case n.tail != nil:
		return s.hold(&n.tail, e)
	case b != nil && s.holds(b), b == nil && len(n.held) > 0 && e.data != nil && kind != "ping":
		return s.hold(&n.held, e)
	case b != nil:
		return s.pass(e)
	}
	return s.emit(s.next, e)
}

// readEnd reads an event after the content.
func (s *messagesStage) readEnd(e *blockEvent, kind string) {
	n := &s.now
	delta, _ := objectOf(e.data.get("delta"))
	if stop := delta.text("stop_reason"); stop != "" {
		n.stop, n.ended = stop, true
	}
	n.ended = n.ended || kind == "message_stop"
	s.readUsage(e.data)
}

// readUsage reads the usage in a message or an event.
func (s *messagesStage) readUsage(o object) {
	switch u := o.get("usage"); {
	case len(u) == 0 || u[0] != '{':
	case s.now.usage == nil:
		s.now.usage = clone(u)
	default:
		s.now.usage = grown(s.now.usage, u)
	}
}

// readBlock reads an event of a block: the one with its index, the last one if it has none, or a new
// one, as some servers do not announce blocks. The event that ends no known block belongs to none.
func (s *messagesStage) readBlock(e *blockEvent, kind string) error {
	n := &s.now
	number := string(e.data.get("index"))
	delta, _ := objectOf(e.data.get("delta"))
	if e.block = n.at[number]; e.block == nil && number == "" && len(n.blocks) > 0 {
		e.block = n.blocks[len(n.blocks)-1]
	}
	kept := 0
	switch {
	case kind == "content_block_start":
		e.block = n.add(number, e.data.get("content_block"))
		s.decide(e.block)
		n.said = n.said || e.block.says()
		kept = len(e.event)
	case kind == "content_block_delta" && e.block == nil:
		e.block = n.add(number, kindOfDelta(delta.text("type")))
		s.decide(e.block)
	case e.block == nil:
		return nil
	}
	if kind == "content_block_delta" {
		n.said = n.said || strings.TrimSpace(delta.text("text")+delta.text("thinking")) != ""
		kept += e.block.join(delta)
	}
	return s.take(kept)
}

// kindOfDelta returns the block that a delta of that type belongs to.
func kindOfDelta(delta string) []byte {
	switch delta {
	case "thinking_delta", "signature_delta":
		return []byte(`{"type":"thinking","thinking":""}`)
	case "input_json_delta":
		return []byte(`{"type":"tool_use"}`)
	}
	return []byte(`{"type":"text","text":""}`)
}

// hold holds an event.
func (s *messagesStage) hold(in *[]blockEvent, e *blockEvent) error {
	*in = append(*in, blockEvent{e.copied(), e.block})
	return s.take(len(e.event))
}

// pass passes on an event after those that are held.
func (s *messagesStage) pass(e *blockEvent) error {
	if err := s.flush(s.next); err != nil {
		return err
	}
	return s.emit(s.next, e)
}

// flush passes on the held events.
func (l *messagesLoop) flush(next io.Writer) error {
	held := l.now.held
	l.now.held = nil
	for i := range held {
		if err := l.emit(next, &held[i]); err != nil {
			return err
		}
	}
	return nil
}

// emit writes an event with the index and the usage that it has for the client.
func (l *messagesLoop) emit(next io.Writer, e *blockEvent) error {
	event := e.event
	switch {
	case e.block != nil:
		number := string(e.data.get("index"))
		l.show(e.block, number)
		if index := strconv.Itoa(e.block.index); l.edited && index != number {
			e.data.set("index", []byte(index))
			event = e.rewritten()
		}
	case e.data.text("type") == "message_start":
		l.started = true
		message, _ := objectOf(e.data.get("message"))
		if l.usage != nil && message != nil {
			message.set("usage", l.total(message.get("usage")))
			e.data.set("message", message.json())
			event = e.rewritten()
		}
	}
	l.now.open = !ended(event)
	_, err := next.Write(event)
	return err
}

// EndStream implements Loop.
func (l *messagesLoop) EndStream(io.Writer) (LoopTurn, error) { return l.turn(), nil }

// Finish implements Loop. It writes the held events, the comment, and the end of the message. That
// has the usage of all rounds, since the client has got only what the first one began with.
func (l *messagesLoop) Finish(next io.Writer, vendor json.RawMessage, comment string) error {
	n := &l.now
	if err := l.flush(next); err != nil {
		return err
	}
	if comment != "" && !n.open {
		if err := EventComment(next, comment); err != nil {
			return err
		}
	}
	reason, stops := l.stopped()
	for i := range n.tail {
		e := &n.tail[i]
		if e.data.text("type") == "message_delta" && (l.round > 1 || stops || vendor != nil) {
			if delta, ok := objectOf(e.data.get("delta")); ok && stops && delta.get("stop_reason") != nil {
				delta.set("stop_reason", reason)
				e.data.set("delta", delta.json())
			}
			if used := l.total(n.usage); l.round > 1 && used != nil {
				e.data.set("usage", used)
			}
			if vendor != nil {
				e.data.set("sidenote", vendor)
			}
			e.loopEvent = eventOf(e.rewritten())
		}
		if err := l.emit(next, e); err != nil {
			return err
		}
	}
	return nil
}

// Fail implements Loop.
func (l *messagesLoop) Fail(next io.Writer, body []byte) error {
	o, _ := objectOf(errorIn(body))
	kind := o.text("type")
	if kind == "" || kind == "server_error" {
		kind = "api_error"
	}
	fault := object{{"type", quote(kind)}, {"message", quote(o.text("message"))}}
	return writeMessageEvent(next, "error", object{{"error", fault.json()}})
}

// writeMessageEvent writes an event of the Messages API.
func writeMessageEvent(next io.Writer, name string, members object) error {
	if _, err := io.WriteString(next, "event: "+name+"\n"); err != nil {
		return err
	}
	return EventData(next, append(object{{"type", quote(name)}}, members...).json())
}

// Events implements Loop. Each block comes in one piece.
func (l *messagesLoop) Events(body []byte, _ bool, comment string) []byte {
	o, _ := objectOf(body)
	var b bytes.Buffer
	event := func(name string, members object) {
		_ = writeMessageEvent(&b, name, members) // a bytes.Buffer never fails
	}
	null := []byte("null")
	delta := object{{"stop_reason", null}, {"stop_sequence", null}}
	begun := slices.Clone(o)
	begun.set("content", []byte("[]"))
	begun.drop("sidenote")
	for i := range delta {
		if v := o.get(delta[i].name); v != nil {
			delta[i].value = v
		}
		begun.set(delta[i].name, null)
	}
	event("message_start", object{{"message", begun.json()}})
	for i, raw := range elementsOf(o.get("content")) {
		at := member{"index", strconv.AppendInt(nil, int64(i), 10)}
		block, _ := objectOf(raw)
		deltas := block.cutDeltas()
		event("content_block_start", object{at, {"content_block", block.json()}})
		for _, d := range deltas {
			event("content_block_delta", object{at, {"delta", d.json()}})
		}
		event("content_block_stop", object{at})
	}
	if comment != "" {
		_ = EventComment(&b, comment)
	}
	end := object{{"delta", delta.json()}}
	if used := o.get("usage"); used != nil {
		end.set("usage", used)
	}
	if vendor := o.get("sidenote"); vendor != nil {
		end.set("sidenote", vendor)
	}
	event("message_delta", end)
	event("message_stop", nil)
	return b.Bytes()
}

// cutDeltas removes from a content block what streams have in deltas, and returns these.
func (o *object) cutDeltas() (deltas []object) {
	cut := func(name, kind, field, empty string) {
		v := o.get(name)
		if v == nil || string(v) == empty {
			return
		}
		deltas = append(deltas, object{{"type", quote(kind)}, {field, v}})
		o.set(name, []byte(empty))
	}
	switch o.text("type") {
	case blockText:
		for _, citation := range elementsOf(o.get("citations")) {
			deltas = append(deltas, object{{"type", []byte(`"citations_delta"`)}, {"citation", citation}})
		}
		if deltas != nil {
			o.set("citations", []byte("[]"))
		}
		cut("text", "text_delta", "text", `""`)
	case blockThinking:
		cut("thinking", "thinking_delta", "thinking", `""`)
		cut("signature", "signature_delta", "signature", `""`)
	case blockCall, "server_tool_use", "mcp_tool_use":
		if input := o.get("input"); input != nil {
			deltas = append(deltas, object{{"type", []byte(`"input_json_delta"`)}, {"partial_json", quote(string(input))}})
			o.set("input", []byte("{}"))
		}
	}
	return deltas
}
