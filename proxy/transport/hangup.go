package transport

import (
	"errors"
	"net"
	"os"
	"time"

	"sidenote/proxy/panics"
)

// watchHangup calls onGone, once and from a goroutine for the connection, when the
// peer of conn closes its side or the connection breaks. Only one watch at a time may
// be on a connection, which has no read deadline then, and nobody may read from it
// meanwhile. stop ends the watch and waits for it: after it onGone does not run. A
// peer that half-closes counts as gone.
//
// Only plain TCP connections on Unix are watched, others never report.
func watchHangup(conn net.Conn, hungUp func(fd uintptr) bool, panicked panics.Handler, onGone func()) (stop func()) {
	tcp, ok := tcpOf(conn)
	if !ok || !canWatch {
		return func() {}
	}
	// The deadline for reading the request's head is still on: it is not ours.
	if conn.SetReadDeadline(time.Time{}) != nil {
		return func() {}
	}
	ended := make(chan struct{})
	panics.Go(panicked, func() {
		// Readiness comes in edges, so bytes that wait unread cost one look
		// and no loop.
		err := tcp.raw.Read(hungUp)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			onGone()
		}
	}, func() { close(ended) })
	return func() {
		// Errors mean that the connection is closed, which ends the watch too.
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		<-ended
		_ = conn.SetReadDeadline(time.Time{})
	}
}
