package tcp

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// A tlsOutput is the connection below a server's TLS. WriteWithin is applied here because a TLS
// connection is unusable after a Write has hit a deadline.
type tlsOutput struct {
	Timed
	wait atomic.Int64 // how long a Write may take without progress of the peer
}

// Write implements net.Conn.
func (o *tlsOutput) Write(p []byte) (int, error) {
	return o.WriteWithin(p, time.Duration(o.wait.Load()))
}

// closeWait is how long writing TLS's close message may take.
const closeWait = 100 * time.Millisecond

// Close closes conn. A peer that accepts nothing does not delay it.
func Close(conn net.Conn) error {
	waitBelow(conn, closeWait)
	return conn.Close()
}

// CloseWrite closes the write side of conn.
func CloseWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// ServeTLS returns a TLS connection to the client of plain, a *Conn or a *Headed. The first Read or
// Write makes the handshake; each write of it may take wait.
func ServeTLS(plain net.Conn, settings *tls.Config, wait time.Duration) *tls.Conn {
	below := &tlsOutput{Timed: Timed{Conn: plain}}
	below.wait.Store(int64(wait))
	return tls.Server(below, settings)
}

// TLSOf returns the TLS connection of conn, nil if there is none. It looks into a Timed.
func TLSOf(conn net.Conn) *tls.Conn {
	if c, timed := conn.(interface{ inner() net.Conn }); timed {
		conn = c.inner()
	}
	secure, _ := conn.(*tls.Conn)
	return secure
}

// waitBelow sets how long each Write below conn's TLS may take, and reports whether conn is a
// connection of ServeTLS.
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
