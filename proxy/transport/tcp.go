package transport

import (
	"net"
	"syscall"
)

// A tcpConn is a TCP connection, of a client or to the upstream.
//
// On Linux its reads and writes are raw system calls, of which Go's scheduler is not
// told. The descriptor does not block, so each call ends soon. But a write on loopback
// does the receiver's work, too, and so often lasts 20 µs, after which the runtime takes
// the processor from a system call that it knows of. Giving the processor to another
// thread, waking that and checking for more such calls every 20 µs cost a tenth of a
// relayed request. With the race detector, which must be told of the calls, they are
// the usual ones.
type tcpConn struct {
	*net.TCPConn
	raw syscall.RawConn
	calls
}

// A Raw returns the raw connection that reads and writes go through, as
// (*net.TCPConn).SyscallConn does. Tests use it to make reads and writes fail.
type Raw func(*net.TCPConn) (syscall.RawConn, error)

func newTCP(c net.Conn, open Raw) (*tcpConn, error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, net.UnknownNetworkError(c.LocalAddr().Network())
	}
	if open == nil {
		open = (*net.TCPConn).SyscallConn
	}
	raw, err := open(tcp)
	if err != nil {
		return nil, err
	}
	t := &tcpConn{TCPConn: tcp, raw: raw}
	t.prepare()
	return t, nil
}

// Backlog implements backlog.
func (t *tcpConn) Backlog() (unarrived int, known bool) {
	err := t.raw.Control(func(fd uintptr) { unarrived, known = unacknowledged(fd) })
	return unarrived, known && err == nil
}

// tcpOf returns the TCP connection of conn if that is plain TCP, without TLS.
func tcpOf(conn net.Conn) (tcp *tcpConn, ok bool) {
	if c, ours := conn.(*clientConn); ours {
		conn = c.Conn
	}
	tcp, ok = conn.(*tcpConn)
	return tcp, ok
}
