package tcp

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// A tlsOutput is the connection that TLS of a server reads from and writes to. The patience
// of WriteWithin is here, below TLS: a TLS connection cannot be used any more after a Write
// of it has met a deadline.
type tlsOutput struct {
	Timed
	wait atomic.Int64 // that a Write may take without progress of the peer
}

// Write implements net.Conn.
func (o *tlsOutput) Write(p []byte) (int, error) {
	return o.WriteWithin(p, time.Duration(o.wait.Load()))
}

// closeWait is how long the message of TLS that ends a connection may take to be written.
const closeWait = 100 * time.Millisecond

// Close closes conn. A peer that takes nothing does not hold that up.
func Close(conn net.Conn) error {
	waitBelow(conn, closeWait)
	return conn.Close()
}

// CloseWrite ends our side of conn.
func CloseWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// ServeTLS returns a TLS connection to the client of plain, a *Conn or a *Headed. The handshake is made by the
// first Read or Write; a piece of it may take wait to be written.
func ServeTLS(plain net.Conn, settings *tls.Config, wait time.Duration) *tls.Conn {
	below := &tlsOutput{Timed: Timed{Conn: plain}}
	below.wait.Store(int64(wait))
	return tls.Server(below, settings)
}

// TLSOf returns the TLS connection of conn, nil if it has none. It looks into every Timed.
func TLSOf(conn net.Conn) *tls.Conn {
	if c, timed := conn.(interface{ inner() net.Conn }); timed {
		conn = c.inner()
	}
	secure, _ := conn.(*tls.Conn)
	return secure
}

// waitBelow lets each Write of conn wait that long below its TLS, and reports whether it is
// a connection of ServeTLS, which does so.
func waitBelow(conn net.Conn, wait time.Duration) bool {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return false
	}
	below, ok := secure.NetConn().(*tlsOutput)
	if ok {
		below.wait.Store(int64(wait))
	}
	return ok
}
