package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// errStale is that of a pooled connection that was closed, or that has sent what
// nobody asked for. Nothing was written to it.
var errStale = errors.New("idle connection is not usable")

// load says what put and ask will write.
func (c *conn) load(text []byte, body [][]byte) {
	c.asking.list = append(append(c.asking.list[:0], text), body...)
	c.asking.out = c.asking.list
}

// put writes what c was loaded with. An error does not end the exchange, unless time
// ran out: an upstream that refuses early answers before it closes.
func (c *conn) put() (err error) {
	a := &c.asking
	if c.Conn == c.tcp {
		_, err = c.tcp.writeAll(a.out)
	} else {
		_, err = a.out.WriteTo(c.Conn)
	}
	clear(a.list)
	a.out = nil
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return c.SetReadDeadline(time.Now().Add(afterCut))
}

// begin writes head, and of body what the kernel takes without waiting, all of it as
// a rule. left is the rest. body stays as it is.
func (c *conn) begin(head []byte, body [][]byte) (left [][]byte, err error) {
	all, n := append([][]byte{head}, body...), 0
	if c.Conn == c.tcp {
		// An error shows in what is written next: n is 0 then.
		_ = c.tcp.raw.Write(func(fd uintptr) bool {
			n, _, _ = writeNow(fd, all)
			return true
		})
	}
	if n < len(head) {
		_, err = c.Conn.Write(head[n:])
		return body, err
	}
	return after(all, n), nil
}

// after is what of pieces follows their first n bytes. It changes them.
func after(pieces [][]byte, n int) [][]byte {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces[0], pieces = nil, pieces[1:]
	}
	if n > 0 {
		pieces[0] = pieces[0][n:]
	}
	return pieces
}

// An asking is a request on its way over a pooled connection. That the connection
// is silent, the write and the wait for the answer are one call of RawConn.Read:
// it begins to listen for readiness before the look, so that after the write it can
// wait without another look that would find nothing.
type asking struct {
	list [][]byte    // memory of out
	out  net.Buffers // what is to be written; nil once it was
	into []byte      // for the beginning of the answer
	n    int
	err  error
	step func(fd uintptr) (done bool) // conn.stepAsking
}

// ask looks whether c, out of the pool, is usable, writes what c was loaded with and
// waits for the answer to begin.
func (c *conn) ask() error {
	_, err := c.br.Peek(1)
	c.asking.out = nil
	return err
}

// readAsking is Read within ask.
func (c *conn) readAsking(p []byte) (int, error) {
	a := &c.asking
	a.into, a.n, a.err = p, 0, nil
	err := c.tcp.raw.Read(a.step)
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
	case len(a.out) > 0 && !none:
		a.err = errStale
	case len(a.out) > 0:
		a.err = c.put()
		return a.err != nil
	case none:
		return false
	case err != nil:
		a.err = err
	case n == 0:
		a.err = io.EOF
	default:
		a.n = n
	}
	return true
}
