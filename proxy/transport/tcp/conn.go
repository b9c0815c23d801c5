// Package tcp provides fast connections over TCP or unix sockets: reads and writes, deadlines, and
// ways to notice without reading that a peer has closed.
package tcp

import (
	"crypto/tls"
	"net"
	"syscall"
)

// A Conn is a TCP or unix socket connection to a client or to the upstream.
//
// On Linux its reads and writes are raw system calls that Go's scheduler does not know of. The
// descriptor is non-blocking, so each call ends soon. But a write on loopback also does the
// receiver's work and often lasts 20 µs, after which the runtime takes the processor away from a
// system call that it knows of. Handing the processor to another thread, waking that and checking
// for more such calls every 20 µs cost a tenth of a relayed request. The build tag sidenote_plain
// selects ordinary system calls.
type Conn struct {
	stream
	Raw syscall.RawConn // reads and writes go through it
	calls
}

// A stream is a *net.TCPConn or a *net.UnixConn.
type stream interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
	SetWriteBuffer(bytes int) error
}

// An Opener returns the raw connection that reads and writes go through, like
// (*net.TCPConn).SyscallConn. Tests use it to make reads and writes fail.
type Opener func(*net.TCPConn) (syscall.RawConn, error)

// New returns c, a TCP or unix socket connection, as a Conn. A nil open means
// (*net.TCPConn).SyscallConn.
func New(c net.Conn, open Opener) (t *Conn, err error) {
	t = new(Conn)
	switch c := c.(type) {
	case *net.TCPConn:
		if open == nil {
			open = (*net.TCPConn).SyscallConn
		}
		t.stream = c
		t.Raw, err = open(c)
	case *net.UnixConn:
		t.stream = c
		t.Raw, err = c.SyscallConn()
	default:
		return nil, net.UnknownNetworkError(c.LocalAddr().Network())
	}
	if err != nil {
		return nil, err
	}
	t.prepare()
	return t, nil
}

// Backlog implements backlog.
func (t *Conn) Backlog() (unarrived int, known bool) {
	err := t.Raw.Control(func(fd uintptr) { unarrived, known = unacknowledged(fd) })
	return unarrived, known && err == nil
}

// HungUp reports whether the peer has closed its side, or the connection is broken.
func (t *Conn) HungUp() (gone bool) {
	err := t.Raw.Control(func(fd uintptr) { gone = HungUp(fd) })
	return gone || err != nil
}

// WriteSome writes as much of pieces, in order, as the kernel takes without waiting. If that fails
// it returns 0, and the next write returns the error.
func (t *Conn) WriteSome(pieces [][]byte) (n int) {
	_ = t.Raw.Write(func(fd uintptr) bool {
		n, _, _ = writeNow(fd, pieces)
		return true
	})
	return n
}

// Of returns the Conn underlying conn, also below TLS and Timed.
func Of(conn net.Conn) (tcp *Conn, ok bool) {
	for {
		switch c := conn.(type) {
		case *Conn:
			return c, true
		case *tls.Conn:
			conn = c.NetConn()
		case interface{ inner() net.Conn }:
			conn = c.inner()
		default:
			return nil, false
		}
	}
}

// Reset closes the connection of conn so that its peer sees a reset and, with TLS, no close
// message: clients may take a normal close for the end of an answer. A unix socket has no reset.
func Reset(conn net.Conn) {
	if plain, ok := Of(conn); ok {
		if tcp, ok := plain.stream.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = plain.Close()
	}
}

// Skip returns pieces without their first n bytes. It modifies pieces.
func Skip(pieces [][]byte, n int) [][]byte {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces[0], pieces = nil, pieces[1:]
	}
	if n > 0 {
		pieces[0] = pieces[0][n:]
	}
	return pieces
}
