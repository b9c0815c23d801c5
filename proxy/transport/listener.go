package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

// A Server answers requests on its listeners. Create it with NewServer.
type Server struct {
	http  *fasthttp.Server
	guard *guard
}

// Serve answers requests on ln, which may be a *Listener, until Shutdown, then returns nil. It may
// be called for several listeners. Running out of descriptors or memory does not end it.
func (s *Server) Serve(ln net.Listener) error {
	g := s.guard
	l := &listener{guard: g, Gate: NewGate(ln, GateOptions{
		MaxConnections: g.clients.set.MaxConnections, Crowd: &g.clients.set, Reserve: g.options.Reserve,
		Refusal: g.refusal, Shed: g.options.Shed, Panicked: g.options.Panicked,
	})}
	defer l.Wait()
	return s.http.Serve(l)
}

// Shutdown stops listening and waits for open requests to end, or returns ctx's error if ctx ends
// first. Connections without a complete request head are closed at once. Hang-ups of clients are
// noticed until the last connection has ended.
func (s *Server) Shutdown(ctx context.Context) error {
	g := s.guard
	err := s.http.ShutdownWithContext(ctx)
	g.clients.closeWaiting() // only needed if Serve was never called; else listener.Close has done it
	if err == nil {
		err = g.clients.wait(ctx) // fasthttp does not wait for hijacked connections
	}
	if err == nil {
		g.hangups.Close()
		return nil
	}
	panics.Go(g.options.Panicked, func() {
		<-g.clients.allEnded
		g.hangups.Close()
	}, nil)
	return err
}

// Cut resets the connections still open after Shutdown, so that clients notice that their answers
// were cut.
func (s *Server) Cut() { s.guard.clients.cut() }

// Connections returns the number of open client connections.
func (s *Server) Connections() int { return s.guard.clients.set.Len() }

// A listener refuses connections beyond ServerOptions.Connections. fasthttp would do that in plain
// text without Retry-After, and would stop serving when it first runs out of descriptors.
type listener struct {
	*Gate
	guard   *guard
	closing sync.Once
}

// Accept returns the next connection that is not refused.
func (l *listener) Accept() (net.Conn, error) {
	c, addr, err := l.Admit()
	if err != nil {
		return nil, err
	}
	return l.guard.newConn(c, addr, l.Gate), nil
}

// Close stops the listener and closes connections without a complete request head. fasthttp itself
// would close only those that wait between two requests.
func (l *listener) Close() error {
	l.closing.Do(l.guard.clients.closeWaiting)
	return l.Gate.Close()
}

// refusal is GateOptions.Refusal.
func (g *guard) refusal(code string) (head string, body []byte) {
	var lines strings.Builder
	for _, line := range g.errorHead(code) {
		fmt.Fprintf(&lines, "%s: %s\r\n", line.Name, line.Value)
	}
	return lines.String(), g.options.ErrorBody(fasthttp.StatusServiceUnavailable, code)
}

// connState is the ConnState hook of fasthttp. Hijacked connections end in their hijack handler.
func (g *guard) connState(c net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateActive:
		if client := c.(*clientConn); client.waits.Load() == forRequest { // its head is incomplete
			client.since.Store(int64(tcp.Clock()))
			client.waits.CompareAndSwap(forRequest, forHead)
		}
	case fasthttp.StateIdle:
		c.(*clientConn).replied, c.(*clientConn).head = false, http1.HeadScanner{}
		c.(*clientConn).waits.Store(forRequest)
	case fasthttp.StateClosed:
		c.(*clientConn).end()
	}
}

// unlimited disables fasthttp's connection limit; the listener has its own.
const unlimited = math.MaxInt32

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

// CertificateFiles are the paths of a port's PEM files.
type CertificateFiles struct {
	Cert, Key string
	ClientCA  string // "": no client certificate is required
}

// ListenerTLS returns the TLS settings of a port: TLS 1.2 or later, HTTP/1.1 only. At a handshake
// the files are read again, at most once a second. If they cannot be used, the last good settings
// stay and tell is called once with the error; it is called with nil when new settings are used.
// ListenerTLS itself fails if the files cannot be used now.
func ListenerTLS(files CertificateFiles, tell func(err error)) (*tls.Config, error) {
	return newTLS(files, tell, time.Now)
}

func newTLS(files CertificateFiles, tell func(error), now func() time.Time) (*tls.Config, error) {
	all := []CertificateFile{CertificatesOnDisk(files.Cert), CertificatesOnDisk(files.Key), CertificatesOnDisk(files.ClientCA)}
	r, err := NewReloader(all, func(pems [][]byte) (*tls.Config, error) { return settings(files, pems) }, now)
	if err != nil {
		return nil, err
	}
	r.OnReload = tell
	outer := r.Current().Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return r.Current(), nil }
	return outer, nil
}

// settings makes TLS settings from the contents of the files.
func settings(f CertificateFiles, pems [][]byte) (*tls.Config, error) {
	pair, err := CertificatePair(pems[0], pems[1])
	if err != nil {
		return nil, fmt.Errorf("%q with key %q: %w", f.Cert, f.Key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if f.ClientCA == "" {
		return c, nil
	}
	if c.ClientCAs, err = CertificateAuthorities(pems[2]); err != nil {
		return nil, fmt.Errorf("%q %w", f.ClientCA, err)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.SessionTicketsDisabled = true // resumed sessions would not be checked against a new client_ca
	return c, nil
}
