package transport

import (
	"bufio"
	"net"
	"net/netip"
	"time"

	"github.com/pires/go-proxyproto"

	"sidenote/proxy/transport/tcp"
)

// Serve returns the connection to the client of plain: it handles the PROXY header, if one is
// expected, and TLS, if the port has it. Writing a part of the TLS handshake may take wait. A nil
// Listener is a plain port.
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

// fromProxy reports whether connections from peer begin with a PROXY protocol header.
func (l *Listener) fromProxy(peer netip.Addr) bool {
	return l != nil && AddressWithin(l.Proxies, peer)
}

// readHeader reads a PROXY protocol header, version 1 or 2, and nothing after it. It returns the
// address of the proxy's client, or nil if the connection is the proxy's own.
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
