package answer

import (
	"bytes"
	"io"
)

// maxIdleUsageBuffer is the capacity in bytes of the largest buffer that a UsageHider keeps between
// two writes.
const maxIdleUsageBuffer = 2 << 10

// A UsageHider removes the usage that the upstream reports only because we asked for it
// (include_usage): the event with usage and no text, and the member "usage":null that servers then
// add to all other events. Usage beside text stays, since servers send that unasked. All other
// bytes are passed on unchanged.
type UsageHider struct {
	to       io.Writer
	splitter Splitter
	out      buffer // output for the current piece
}

// NewUsageHider returns a UsageHider that passes the stream on to w. Each Write makes at most one
// write to w.
func NewUsageHider(w io.Writer) *UsageHider {
	h := &UsageHider{to: w}
	h.splitter.Reset(true, &h.out, h.stage)
	return h
}

// Write reads the next piece of the stream.
func (h *UsageHider) Write(piece []byte) (int, error) {
	if _, err := h.splitter.Write(piece); err != nil {
		return 0, err
	}
	return len(piece), h.flush()
}

// Close passes on the rest, an incomplete event.
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

// A hiding passes on events without their usage.
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

// hidden returns the range of an event that is to be removed, empty for none.
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

// A usageMember describes the member "usage" of an event.
type usageMember struct {
	from, to int  // range of the member and one comma; to is 0 if there is none
	null     bool // its value is null
	noText   bool // its value is an object, and no choice of the event has text
	whole    bool // the event is a JSON object
}

// findMember finds the member "usage" in an event's data.
func findMember(data []byte) (m usageMember) {
	c := cursor{text: data}
	before, first, empty, object := 0, -1, false, false // first: where the next member starts if usage is the first
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

// noText reports whether the choices of an event have no text: there are none, or each has an empty
// delta or text and no finish reason, as LiteLLM's.
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

// nothingIn reports whether all members of an object are null or empty.
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
