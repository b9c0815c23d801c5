// Package tcp has connections, of TCP or of unix sockets, that cost little: their reads and writes, their
// deadlines, and how the end of a peer is noticed without reading.
package tcp

import (
	"crypto/tls"
	"net"
	"syscall"
)

// A Conn is a TCP connection, or one of a unix socket, of a client or to the upstream.
//
// On Linux its reads and writes are raw system calls, of which Go's scheduler is not
// told. The descriptor does not block, so each call ends soon. But a write on loopback
// does the receiver's work, too, and so often lasts 20 µs, after which the runtime takes
// the processor from a system call that it knows of. Giving the processor to another
// thread, waking that and checking for more such calls every 20 µs cost a tenth of a
// relayed request. The build tag sidenote_plain makes them usual ones.
type Conn struct {
	stream
	Raw syscall.RawConn // what reads and writes go through
	calls
}

// A stream is a *net.TCPConn or a *net.UnixConn.
type stream interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
	SetWriteBuffer(bytes int) error
}

// An Opener returns the raw connection that reads and writes go through, as
// (*net.TCPConn).SyscallConn does. Tests use it to make reads and writes fail.
type Opener func(*net.TCPConn) (syscall.RawConn, error)

// New returns c, which must be a TCP connection or one of a unix socket, as a Conn. A nil
// open is (*net.TCPConn).SyscallConn.
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

// WriteSome writes as much of pieces, one after another, as the kernel takes without
// waiting. If that fails n is 0, and the next write returns the error.
func (t *Conn) WriteSome(pieces [][]byte) (n int) {
	_ = t.Raw.Write(func(fd uintptr) bool {
		n, _, _ = writeNow(fd, pieces)
		return true
	})
	return n
}

// Of returns the Conn of conn, which is below its TLS if it has that. It looks
// into every Timed.
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

// Reset closes the connection of conn so that its peer sees a reset and, with TLS, no end of
// the stream: clients may take either for the end of an answer. A unix socket has no reset.
func Reset(conn net.Conn) {
	if plain, ok := Of(conn); ok {
		if tcp, ok := plain.stream.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = plain.Close()
	}
}

// Skip returns pieces without their first n bytes. It changes pieces.
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
