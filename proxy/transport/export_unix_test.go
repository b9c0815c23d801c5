//go:build unix

package transport

import "net"

// Watch watches conn as u watches clients without a hangup watcher.
func Watch(u *Upstream, conn net.Conn, onGone func()) (stop func()) {
	if tcp, err := newTCP(conn, nil); err == nil {
		conn = tcp
	}
	return watchHangup(conn, u.hungUp, nil, onGone)
}

// LookPortably makes u notice hang-ups as on a Unix that is not Linux.
func LookPortably(u *Upstream) { u.portable, u.hungUp, u.reusable = true, peekHungUp, peekReusable }

// Left tells whether the hangup watcher saw the client of a server's connection leave.
func Left(client net.Conn) bool { return client.(*clientConn).gone.Load() }
