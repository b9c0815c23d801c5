package proxy

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/answer"
	"sidenote/proxy/transport"
)

// MaxWhole is the largest answer, in bytes, that is buffered.
const MaxWhole = 16 << 20

// isStream reports whether an answer is an event stream.
func isStream(answer *transport.Answer) bool {
	return bytes.HasPrefix(answer.Header(fasthttp.HeaderContentType), []byte("text/event-stream"))
}

// readWhole reads an answer into memory reserved from room. ok is false if body is incomplete: the
// answer is larger than MaxWhole, or was cut. The error is a *transport.Error of class NoRoom.
func readWhole(ans *transport.Answer, room transport.BodyMemory) (body []byte, ok bool, err error) {
	memory := &memory{BodyMemory: room}
	if body, ok = ans.Peek(MaxWhole, memory); memory.short {
		return nil, false, &transport.Error{Class: transport.NoRoom, Err: answer.ErrNoLoopRoom}
	}
	return body, ok, nil
}

// memory is a transport.BodyMemory that remembers whether a reservation failed.
type memory struct {
	transport.BodyMemory
	short bool
}

// Take implements transport.BodyMemory.
func (m *memory) Take(n int) bool {
	m.short = m.short || !m.BodyMemory.Take(n)
	return !m.short
}

// answerInstead returns a transport.Relay.Filter that replaces the upstream's body by body, then
// passes that through then, which may be nil.
func answerInstead(then func(io.Writer) io.WriteCloser, body []byte) func(io.Writer) io.WriteCloser {
	return func(w io.Writer) io.WriteCloser {
		if then == nil {
			return &replaced{w, body}
		}
		return &chained{replaced{nil, body}, then(w)}
	}
}

// replaced drops the upstream's body and writes another one.
type replaced struct {
	to   io.Writer
	body []byte
}

// Write implements io.Writer. It drops p.
func (w *replaced) Write(p []byte) (int, error) { return len(p), nil }

// Close writes the body.
func (w *replaced) Close() error {
	_, err := w.to.Write(w.body)
	return err
}

// chained is a replaced that also closes the writer it writes to.
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

// failStream writes an error event: with the error in body or, if it has none, with one that says
// that the answer broke off.
func failStream(next io.Writer, body []byte) error {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && len(said.Error) > 0 {
		return answer.EventData(next, append(append([]byte(`{"error":`), said.Error...), '}'))
	}
	return answer.EventData(next, []byte(`{"error":{"code":"upstream_broken","message":"The answer broke off between two calls; try again.","param":null,"type":"server_error"}}`))
}
