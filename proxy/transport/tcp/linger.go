package tcp

import (
	"io"
	"net"
	"time"
)

// lingerTime is how long a connection is still read after the answer that ends it. If it were
// closed at once, the kernel would reset it when the client sends more, and the reset can overtake
// the answer.
const lingerTime = 2 * time.Second

// Linger closes the write side of conn and reads what the peer still sends.
func Linger(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // an error means that the peer has gone
	}
	Drain(conn, lingerTime)
}

// Drain reads and discards what the peer of conn sends within wait.
func Drain(conn net.Conn, wait time.Duration) {
	if conn.SetReadDeadline(time.Now().Add(wait)) == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}
