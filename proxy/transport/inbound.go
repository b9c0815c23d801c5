package transport

import (
	"crypto/tls"
	"net"
	"net/netip"
)

// A Listener is a port with its settings.
type Listener struct {
	net.Listener
	Tenant string      // whose the callers of this port are, whatever they send; "": not decided by the port
	TLS    *tls.Config // nil: none

	// Proxies are load balancers whose connections begin with a header of the PROXY protocol;
	// one without it is closed, and Refused, unless it is nil, is told why.
	Proxies []netip.Prefix
	Refused func(error)
}

// A Peer is what a connection says of who called, before anything that was sent.
type Peer struct {
	Tenant string    // of the port; "" if that decides nothing
	secure *tls.Conn // nil: a plain port
}

// InboundPeerOf returns what a connection says, on a port with these settings; nil settings are
// those of a plain port. secure is nil without TLS; its handshake must be over.
func InboundPeerOf(l *Listener, secure *tls.Conn) (p Peer) {
	if l == nil {
		return p
	}
	return Peer{Tenant: l.Tenant, secure: secure}
}

// TLS returns what is known of the connection's TLS, nil without it.
func (p Peer) TLS() *tls.ConnectionState {
	if p.secure == nil {
		return nil
	}
	state := p.secure.ConnectionState()
	return &state
}

// Certificates returns the verified names of the client's certificate: DNS, URI and mail
// names, then its common name. Ports that ask for none have none.
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
