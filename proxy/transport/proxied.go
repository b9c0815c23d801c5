package transport

import (
	"bufio"
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"

	"sidenote/proxy/transport/tcp"
)

// Serve returns the connection to the client of plain: behind the header of the PROXY
// protocol, if there is one, and with TLS, if the port has that. A piece of TLS's handshake
// may take wait to be written. A nil Listener is a plain one.
func (l *Listener) Serve(plain *tcp.Conn, wait time.Duration) net.Conn {
	var conn net.Conn = plain
	if l.fromProxy(AddressOf(plain.RemoteAddr())) {
		conn = tcp.NewHeaded(plain, l.readHeader)
	}
	if l != nil && l.TLS != nil {
		return tcp.ServeTLS(conn, l.TLS, wait)
	}
	return conn
}

// fromProxy reports whether a connection from peer begins with a header of the PROXY protocol.
func (l *Listener) fromProxy(peer netip.Addr) bool {
	return l != nil && AddressWithin(l.Proxies, peer)
}

// readHeader reads a header of the PROXY protocol, version 1 or 2, and nothing behind it. It
// returns the address of the proxy's client, or nil where the connection is the proxy's own.
func (l *Listener) readHeader(r *bufio.Reader) (net.Addr, error) {
	header, err := proxyproto.Read(r)
	if err != nil {
		if l.Refused != nil {
			l.Refused(err)
		}
		return nil, err
	}
	source, _, ok := header.TCPAddrs()
	if !ok || header.Command.IsLocal() {
		return nil, nil
	}
	return source, nil
}
