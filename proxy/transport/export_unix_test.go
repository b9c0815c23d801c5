//go:build unix

package transport

import "net"

// WatchHangup watches conn as servers do without a hangup watcher.
func WatchHangup(conn net.Conn, portably bool, onGone func()) (stop func()) {
	if tcp, err := newTCP(conn, nil); err == nil {
		conn = tcp
	}
	if portably {
		return watchHangup(conn, peekHungUp, nil, onGone)
	}
	return watchHangup(conn, hungUp, nil, onGone)
}

// LookPortably makes u and a server notice what leaves as on a Unix that is not Linux.
func LookPortably(u *Upstream, o *ServerOptions) { u.reusable, o.hungUp = peekReusable, peekHungUp }

// Left tells whether the hangup watcher saw the client of a server's connection leave.
func Left(client net.Conn) bool { return client.(*clientConn).gone.Load() }
