package transport

import (
	"errors"
	"io"
	"os"
	"time"
)

// errStale is that of a pooled connection that was closed, or that has sent what
// nobody asked for. Nothing was written to it.
var errStale = errors.New("idle connection is not usable")

// put writes text. An error does not end the exchange, unless time ran out: an
// upstream that refuses early answers before it closes.
func (c *conn) put(text []byte) error {
	_, err := c.Conn.Write(text)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return c.SetReadDeadline(time.Now().Add(afterCut))
}

// An asking is a request on its way over a pooled connection. That the connection
// is silent, the write and the wait for the answer are one call of RawConn.Read:
// it begins to listen for readiness before the look, so that after the write it can
// wait without another look that would find nothing.
type asking struct {
	text []byte // nil once it was written
	into []byte // for the beginning of the answer
	n    int
	err  error
	step func(fd uintptr) (done bool) // conn.stepAsking
}

// ask looks whether c, out of the pool, is usable, writes text to it and waits for
// the answer to begin.
func (c *conn) ask(text []byte) error {
	c.asking.text = text
	_, err := c.br.Peek(1)
	c.asking.text = nil
	return err
}

// readAsking is Read within ask.
func (c *conn) readAsking(p []byte) (int, error) {
	a := &c.asking
	a.into, a.n, a.err = p, 0, nil
	err := c.raw.Read(a.step)
	a.into = nil
	if err == nil {
		err = a.err
	}
	return a.n, err
}

// stepAsking is called once to begin with, and then each time that fd may be
// readable, until it is done.
func (c *conn) stepAsking(fd uintptr) (done bool) {
	a := &c.asking
	n, none, err := readNow(fd, a.into)
	switch {
	case a.text != nil && !none:
		a.err = errStale
	case a.text != nil:
		a.err = c.put(a.text)
		a.text = nil
		return a.err != nil
	case none:
		return false
	case err != nil:
		a.err = os.NewSyscallError("read", err)
	case n == 0:
		a.err = io.EOF
	default:
		a.n = n
	}
	return true
}
