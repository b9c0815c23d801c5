//go:build unix

package transport

import "net"

// Watch watches conn as u does the clients of its requests.
func Watch(u *Upstream, conn net.Conn, onGone func()) (stop func()) {
	if tcp, err := newTCP(conn); err == nil {
		conn = tcp
	}
	return u.watch(conn, onGone)
}

// LookPortably makes u see hang-ups as it would on a Unix that is not Linux.
func LookPortably(u *Upstream) { u.lookout, u.hungUp, u.reusable = nil, peekHungUp, peekReusable }
