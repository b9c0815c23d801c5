package transport

import (
	"crypto/tls"
	"net"
	"net/netip"
)

// A Listener is a port with its settings.
type Listener struct {
	net.Listener
	Tenant string      // tenant of all callers of this port; "" if the port does not decide it
	TLS    *tls.Config // nil: no TLS

	// Proxies are load balancers whose connections must begin with a PROXY protocol header. A
	// connection without one is closed, and Refused, if not nil, is called with the error.
	Proxies []netip.Prefix
	Refused func(error)
}

// A Peer is what is known of a connection's peer before it sends anything.
type Peer struct {
	Tenant string    // tenant of the port; "" if the port does not decide it
	secure *tls.Conn // nil without TLS
}

// InboundPeerOf returns the peer of a connection to a port with these settings; nil settings are
// those of a plain port. secure is nil without TLS; its handshake must be complete.
func InboundPeerOf(l *Listener, secure *tls.Conn) (p Peer) {
	if l == nil {
		return p
	}
	return Peer{Tenant: l.Tenant, secure: secure}
}

// TLS returns the state of the connection's TLS, nil without TLS.
func (p Peer) TLS() *tls.ConnectionState {
	if p.secure == nil {
		return nil
	}
	state := p.secure.ConnectionState()
	return &state
}

// Certificates returns the verified names of the client's certificate: DNS, URI and email names,
// then its common name. It returns none if the port requires no certificate.
func (p Peer) Certificates() (names []string) {
	if p.secure == nil {
		return nil
	}
	chains := p.secure.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return nil
	}
	leaf := chains[0][0]
	names = append(names, leaf.DNSNames...)
	for _, u := range leaf.URIs {
		names = append(names, u.String())
	}
	names = append(names, leaf.EmailAddresses...)
	if name := leaf.Subject.CommonName; name != "" {
		names = append(names, name)
	}
	return names
}
