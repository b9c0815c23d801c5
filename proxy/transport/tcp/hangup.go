package tcp

import (
	"errors"
	"net"
	"os"
	"time"

	"sidenote/proxy/panics"
)

// WatchHangup calls onGone once, from its own goroutine, when the peer of conn closes its side
// (even if it only half-closes) or the connection breaks. During the watch the connection has no
// read deadline, and nobody else may watch it or read from it. hungUp checks the connection, like
// HungUp. stop ends the watch and waits until onGone cannot run any more.
//
// Only plain TCP connections on Unix can be watched; for others onGone is never called.
func WatchHangup(conn net.Conn, hungUp func(fd uintptr) bool, panicked panics.Handler, onGone func()) (stop func()) {
	tcp, ok := Of(conn)
	if !ok || !CanWatch {
		return func() {}
	}
	// The deadline for reading the request's head may still be set.
	if conn.SetReadDeadline(time.Time{}) != nil {
		return func() {}
	}
	ended := make(chan struct{})
	panics.Go(panicked, func() {
		// The runtime reports readiness once per change, so bytes that stay unread
		// cause one more check and not a loop.
		err := tcp.Raw.Read(hungUp)
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
