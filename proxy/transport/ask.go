package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"sidenote/proxy/transport/tcp"
)

// errStale says that a pooled connection cannot be used: the upstream has closed it, or
// has sent bytes that no request asked for. Nothing was written to it.
var errStale = errors.New("idle connection is not usable")

// setRequest sets what writeRequest and sendPooled will write.
func (c *conn) setRequest(text []byte, body [][]byte) {
	c.pooledSend.list = append(append(c.pooledSend.list[:0], text), body...)
	c.pooledSend.out = c.pooledSend.list
}

// writeRequest writes what setRequest has set. If the upstream stops reading, that is
// not an error yet: it may have answered before it closed. Only a timeout is.
func (c *conn) writeRequest() (err error) {
	a := &c.pooledSend
	if c.Conn == c.tcp {
		_, err = c.tcp.WriteAll(a.out)
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

// startWrite writes head, and as much of body as the kernel takes without waiting, which
// as a rule is all of it. left is the rest. body itself does not change.
func (c *conn) startWrite(head []byte, body [][]byte) (left [][]byte, err error) {
	all, n := append([][]byte{head}, body...), 0
	if c.Conn == c.tcp {
		n = c.tcp.WriteSome(all)
	}
	if n < len(head) {
		_, err = c.Conn.Write(head[n:])
		return body, err
	}
	return tcp.Skip(all, n), nil
}

// A pooledSend is the state of a request that is sent over a pooled connection. One
// call of RawConn.Read checks that the upstream has sent nothing, writes the request
// and waits for the answer. That saves a read: the runtime listens for readiness from
// before the check, so after the write it can wait without reading once more in vain.
type pooledSend struct {
	list [][]byte    // the memory behind out
	out  net.Buffers // what is still to be written; nil once it is written
	into []byte      // takes the beginning of the answer
	n    int
	err  error
	step func(fd uintptr) (done bool) // conn.stepPooled
}

// sendPooled checks that c, which comes from the pool, is usable, writes what
// setRequest has set and waits for the answer to begin.
func (c *conn) sendPooled() error {
	_, err := c.br.Peek(1)
	c.pooledSend.out = nil
	return err
}

// readPooled is what Read does for sendPooled.
func (c *conn) readPooled(p []byte) (int, error) {
	a := &c.pooledSend
	a.into, a.n, a.err = p, 0, nil
	err := c.tcp.Raw.Read(a.step)
	a.into = nil
	if err == nil {
		err = a.err
	}
	return a.n, err
}

// stepPooled is called by RawConn.Read: once at the start and then each time that fd
// may be readable, until it returns true. The first call checks and writes, the others
// read.
func (c *conn) stepPooled(fd uintptr) (done bool) {
	a := &c.pooledSend
	n, wouldBlock, err := tcp.ReadNow(fd, a.into)
	switch {
	case len(a.out) > 0 && !wouldBlock:
		a.err = errStale
	case len(a.out) > 0:
		a.err = c.writeRequest()
		return a.err != nil
	case wouldBlock:
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
