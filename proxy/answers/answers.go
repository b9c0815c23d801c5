// Package answers has what those share that make one answer of several calls: an upstream's answer
// is read whole, another body takes the place of the upstream's, and comments keep a stream alive
// that has nothing to say yet.
package answers

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/transport"
)

// MaxWhole is the largest answer, in bytes, that is read whole.
const MaxWhole = 16 << 20

// Stream tells whether an answer is a stream of events.
func Stream(answer *transport.Answer) bool {
	return bytes.HasPrefix(answer.Header(fasthttp.HeaderContentType), []byte("text/event-stream"))
}

// ReadWhole reads an answer in memory that is taken from room. ok is false if that is not all of it:
// it is larger than MaxWhole, or was cut. The error is a *transport.Error of class NoRoom.
func ReadWhole(ans *transport.Answer, room transport.Room) (body []byte, ok bool, err error) {
	memory := &memory{Room: room}
	if body, ok = ans.Peek(MaxWhole, memory); memory.short {
		return nil, false, &transport.Error{Class: transport.NoRoom, Err: answer.ErrNoLoopRoom}
	}
	return body, ok, nil
}

// memory notes that there was too little of it.
type memory struct {
	transport.Room
	short bool
}

// Take implements transport.Room.
func (m *memory) Take(n int) bool {
	m.short = m.short || !m.Room.Take(n)
	return !m.short
}

// Instead puts a body in place of the upstream's, before what else that passes through: it is for
// transport.Relay.Through.
func Instead(then func(io.Writer) io.WriteCloser, body []byte) func(io.Writer) io.WriteCloser {
	return func(w io.Writer) io.WriteCloser {
		if then == nil {
			return &replaced{w, body}
		}
		return &chained{replaced{nil, body}, then(w)}
	}
}

// replaced is a body in place of the upstream's.
type replaced struct {
	to   io.Writer
	body []byte
}

// Write implements io.Writer: what the upstream says is dropped.
func (w *replaced) Write(p []byte) (int, error) { return len(p), nil }

// Close writes the body.
func (w *replaced) Close() error {
	_, err := w.to.Write(w.body)
	return err
}

// chained is a replaced that writes to what is to be closed after it.
type chained struct {
	replaced
	next io.WriteCloser
}

// Close implements io.Closer.
func (c *chained) Close() error {
	c.to = c.next
	if err := c.replaced.Close(); err != nil {
		return err
	}
	return c.next.Close()
}

// Fail writes an event that has the error of a body, and says that the answer broke off if that has
// none.
func Fail(next io.Writer, body []byte) error {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && len(said.Error) > 0 {
		return answer.EventData(next, append(append([]byte(`{"error":`), said.Error...), '}'))
	}
	return answer.EventData(next, []byte(`{"error":{"code":"upstream_broken","message":"The answer broke off between two calls; try again.","param":null,"type":"server_error"}}`))
}
