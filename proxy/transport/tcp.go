package transport

import (
	"net"
	"syscall"
)

// A tcpConn is a TCP connection, of a client or to the upstream.
//
// On Linux its reads and writes are system calls that Go's scheduler is not told of.
// The descriptor never blocks, so such a call ends by itself; but it often lasts the
// 20 µs after which the runtime takes the processor from a call that it knows of,
// because a write on loopback does the receiver's work too. To give the processor to
// another thread, to wake that, and to look for more such calls every 20 µs cost
// a tenth of a relayed request. The race detector has to be told of the calls: where
// it is on they are the usual ones.
type tcpConn struct {
	*net.TCPConn
	raw syscall.RawConn
	calls
}

// A Raw opens the way to a connection's reads and writes, as (*net.TCPConn).SyscallConn
// does. Tests make that way fail.
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

// tcpOf returns what is underneath conn if that is plain TCP.
func tcpOf(conn net.Conn) (tcp *tcpConn, ok bool) {
	if c, ours := conn.(*clientConn); ours {
		conn = c.Conn
	}
	tcp, ok = conn.(*tcpConn)
	return tcp, ok
}
