package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"sidenote/proxy/transport/tcp"
)

// errStale means that a pooled connection cannot be used: the upstream has closed it, or has sent
// bytes that no request asked for. Nothing was written to it.
var errStale = errors.New("idle connection is not usable")

// setRequest sets what writeRequest and sendPooled will write.
func (c *conn) setRequest(text []byte, body [][]byte) {
	c.pooledSend.list = append(append(c.pooledSend.list[:0], text), body...)
	c.pooledSend.out = c.pooledSend.list
}

// writeRequest writes the request set by setRequest. Only a timeout is an error: if the upstream
// stops reading, it may have answered before it closed.
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

// startWrite writes head, and as much of body as the kernel takes without waiting, which is usually
// all of it. It returns the rest and does not change body.
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

// A pooledSend is the state of a request that is sent on a pooled connection. A single call of
// RawConn.Read checks that the upstream has sent nothing, writes the request and waits for the
// answer. That saves a read: since the runtime watches for readiness from before the check on, it
// need not try to read again after the write before it waits.
type pooledSend struct {
	list [][]byte    // backing memory of out
	out  net.Buffers // what is still to be written; nil when all is written
	into []byte      // receives the start of the answer
	n    int
	err  error
	step func(fd uintptr) (done bool) // conn.stepPooled
}

// sendPooled checks that the pooled connection c is usable, writes the request set by setRequest
// and waits for the answer to begin.
func (c *conn) sendPooled() error {
	_, err := c.br.Peek(1)
	c.pooledSend.out = nil
	return err
}

// readPooled is Read while sendPooled runs.
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

// stepPooled is called by RawConn.Read, at the start and then whenever fd may be readable, until it
// returns true. The first call checks and writes, the others read.
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
