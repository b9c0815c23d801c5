package rounds

import (
	"bytes"
	"io"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/loop"
	"sidenote/proxy/transport"
)

// MaxAnswer is the largest answer, in bytes, that is read whole. One that is larger is no answer to
// a chat, and passes as it came in the first round.
const MaxAnswer = 16 << 20

// RelayWhole answers a request that asked for no stream. how makes the head of an answer when it is
// known. It returns an error only if nothing was sent to the client.
func (r *Rounds) RelayWhole(ctx *fasthttp.RequestCtx, answer *transport.Answer, how func(*transport.Answer) transport.Relay) error {
	for {
		body, ok, err := r.readWhole(answer)
		if err != nil {
			answer.Close()
			return err
		}
		var turn loop.Turn
		if ok {
			turn, ok = r.loop.EndWhole(body)
		}
		if !ok {
			answer.Relay(ctx, how(answer))
			return nil
		}
		if !r.follow(&turn) {
			body, changed := r.loop.Whole(&turn, r.vendor())
			checked := body
			if r.Check != nil {
				checked = r.Check(body)
			}
			changed = changed || !bytes.Equal(checked, body)
			relay := how(answer)
			if changed {
				relay.Through = through(relay.Through, checked)
			}
			answer.Relay(ctx, relay)
			return nil
		}
		if err := r.loop.Continue(io.Discard); err != nil {
			return err
		}
		r.Tap(body)
		answer.Close()
		if answer, err = r.next(); err != nil {
			return err
		}
	}
}

// through puts a body in place of the upstream's before what else it passes through.
func through(then func(io.Writer) io.WriteCloser, body []byte) func(io.Writer) io.WriteCloser {
	return func(w io.Writer) io.WriteCloser {
		if then == nil {
			return &replaced{w, body}
		}
		return &chained{replaced{nil, body}, then(w)}
	}
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

// readWhole reads an answer of 200.
func (r *Rounds) readWhole(answer *transport.Answer) (body []byte, ok bool, err error) {
	if answer.Status() != fasthttp.StatusOK {
		return nil, false, nil
	}
	memory := &memory{Room: r.Memory}
	if body, ok = answer.Peek(MaxAnswer, memory); memory.short {
		return nil, false, &transport.Error{Class: transport.NoRoom, Err: loop.ErrNoRoom}
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
