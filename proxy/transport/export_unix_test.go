//go:build unix

package transport

import (
	"net"

	"sidenote/proxy/transport/tcp"
)

// WatchHangup watches conn like a server without a hangup watcher.
func WatchHangup(conn net.Conn, portably bool, onGone func()) (stop func()) {
	if plain, err := tcp.New(conn, nil); err == nil {
		conn = plain
	}
	if portably {
		return tcp.WatchHangup(conn, tcp.PeekHungUp, nil, onGone)
	}
	return tcp.WatchHangup(conn, tcp.HungUp, nil, onGone)
}

// LookPortably makes u and a server detect hang-ups as on a Unix other than Linux.
func LookPortably(u *Upstream, o *ServerOptions) {
	u.reusable, o.hungUp = tcp.PeekReusable, tcp.PeekHungUp
}

// Left reports whether the hangup watcher saw the client of a server's connection leave.
func Left(client net.Conn) bool { return client.(*clientConn).gone.Load() }
