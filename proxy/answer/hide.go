package answer

import (
	"bytes"
	"io"
)

// maxIdleUsageBuffer is the largest buffer that a UsageHider keeps between two pieces, in bytes.
const maxIdleUsageBuffer = 2 << 10

// A UsageHider takes a stream that tells its usage because we asked for it, and passes it on as
// it would be if nobody had: without the event that has the usage and no text, and without
// the member "usage":null that servers then add to the others. A usage beside text stays:
// servers that tell it there do so unasked. All other bytes stay as they came.
type UsageHider struct {
	to       io.Writer
	splitter Splitter
	out      buffer // what is to be passed on of the current piece
}

// NewUsageHider returns a UsageHider that passes the stream on to w, with one Write for each that
// it takes; none if nothing is left.
func NewUsageHider(w io.Writer) *UsageHider {
	h := &UsageHider{to: w}
	h.splitter.Reset(true, &h.out, h.stage)
	return h
}

// Write takes the next piece of the stream.
func (h *UsageHider) Write(piece []byte) (int, error) {
	if _, err := h.splitter.Write(piece); err != nil {
		return 0, err
	}
	return len(piece), h.flush()
}

// Close passes on the rest: an event that was cut, or lacks its empty line.
func (h *UsageHider) Close() error {
	if err := h.splitter.Close(); err != nil {
		return err
	}
	return h.flush()
}

func (h *UsageHider) flush() error {
	if len(h.out) == 0 {
		return nil
	}
	_, err := h.to.Write(h.out)
	if h.out = h.out[:0]; cap(h.out) > maxIdleUsageBuffer {
		h.out = nil
	}
	return err
}

// A buffer collects what is written to it.
type buffer []byte

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// stage is an EventStage.
func (h *UsageHider) stage(next io.Writer) io.Writer { return hiding{next} }

// A hiding takes events.
type hiding struct{ next io.Writer }

// Write implements io.Writer.
func (s hiding) Write(event []byte) (int, error) {
	from, to := hidden(event)
	for _, part := range [...][]byte{event[:from], event[to:]} {
		if len(part) > 0 {
			if _, err := s.next.Write(part); err != nil {
				return 0, err
			}
		}
	}
	return len(event), nil
}

// hidden returns where in an event stands what is to be hidden: nothing if from is to.
func hidden(event []byte) (from, to int) {
	if lastKey(event, 0, len(event)) < 0 {
		return 0, 0
	}
	data, at := Data(event)
	m := findMember(data)
	switch {
	case !m.whole || m.to == 0:
		return 0, 0
	case m.null:
		return at + m.from, at + m.to
	case m.noText:
		return 0, len(event)
	}
	return 0, 0
}

// A usageMember is the usageMember "usage" of an event.
type usageMember struct {
	from, to int  // it and one comma; to is 0 if there is none
	null     bool // its value is null
	noText   bool // its value is an object, and no choice of the event has text
	whole    bool // the event is a JSON object
}

// findMember finds the member "usage" of an event's data.
func findMember(data []byte) (m usageMember) {
	c := cursor{text: data}
	before, first, empty, object := 0, -1, false, false // first: where the next member begins if usage is the first one
	c.object(func(name []byte) {
		begin := c.i
		if first >= 0 && m.to > 0 && m.from == first {
			m.to, first = c.key, -1
		}
		switch string(name) {
		case "usage":
			m.null, object = bytes.HasPrefix(data[begin:], []byte("null")), c.peek() == '{'
			key := c.key
			c.skip()
			if m.from, m.to = before, c.i; before == 0 {
				m.from, first = key, key
			}
		case "choices":
			c.skip()
			empty = noText(data[begin:c.i])
		default:
			c.skip()
		}
		before = c.i
	})
	m.noText = object && empty
	m.whole = !c.bad && c.peek() == 0
	return m
}

// noText tells whether the choices of an event say nothing: there are none, or each has an
// empty delta or text and no reason to finish, as LiteLLM's.
func noText(choices []byte) bool {
	c, none := cursor{text: choices}, true
	c.list(func() {
		c.object(func(name []byte) {
			value := c.i
			c.skip()
			switch string(name) {
			case "index":
			case "delta":
				none = none && nothingIn(choices[value:c.i])
			default:
				none = none && isNothing(choices[value:c.i])
			}
		})
	})
	return none && !c.bad
}

// nothingIn tells whether all members of an object are null or empty.
func nothingIn(object []byte) bool {
	c, none := cursor{text: object}, true
	c.object(func([]byte) {
		value := c.i
		c.skip()
		none = none && isNothing(object[value:c.i])
	})
	return none && !c.bad
}

func isNothing(value []byte) bool {
	switch string(value) {
	case "null", `""`, "{}", "[]":
		return true
	}
	return false
}
