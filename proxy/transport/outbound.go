package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"reflect"
	"slices"

	"sidenote/proxy/transport/tcp"
)

// OutboundOptions say how an upstream is reached. The zero value connects directly and trusts the
// system's certificate authorities.
type OutboundOptions struct {
	Socket       string            // path of the upstream's unix socket; "": TCP
	Proxy        *Proxy            // nil: connect directly
	RootCAs      *x509.CertPool    // nil: the system's
	Certificates []tls.Certificate // client certificates for upstreams that ask for one

	// Reload, if not nil, supplies the current RootCAs and Certificates in place of those above;
	// fields that are nil above stay nil.
	Reload *Reloader[Trust]
}

// Trust holds the authorities that TLS trusts at an upstream, and the client certificates for it.
type Trust struct {
	RootCAs      *x509.CertPool
	Certificates []tls.Certificate
}

// Equal reports whether o and p reach upstreams in the same way.
func (o OutboundOptions) Equal(p OutboundOptions) bool {
	same := func(a, b tls.Certificate) bool {
		return reflect.DeepEqual(a.Certificate, b.Certificate) && reflect.DeepEqual(a.PrivateKey, b.PrivateKey)
	}
	return o.Socket == p.Socket && reflect.DeepEqual(o.Proxy, p.Proxy) && o.Reload.Follows(p.Reload) &&
		o.RootCAs.Equal(p.RootCAs) && slices.EqualFunc(o.Certificates, p.Certificates, same)
}

// DialContext opens a connection to address (host:port), or to the socket. It can serve as the
// DialContext of net/http.
func (o OutboundOptions) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if o.Socket != "" {
		return new(net.Dialer).DialContext(ctx, "unix", o.Socket)
	}
	if o.Proxy != nil {
		return o.Proxy.dial(ctx, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// TLS returns the settings for connections to a host, which its certificate must name.
func (o OutboundOptions) TLS(host string) *tls.Config {
	c := &tls.Config{ServerName: host, RootCAs: o.RootCAs, Certificates: o.Certificates, MinVersion: tls.VersionTLS12}
	if o.Reload == nil {
		return c
	}
	if o.Certificates != nil {
		c.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			for _, pair := range o.Reload.Current().Certificates {
				if asked.SupportsCertificate(&pair) == nil {
					return &pair, nil
				}
			}
			return new(tls.Certificate), nil // send none and let the upstream decide
		}
	}
	if o.RootCAs != nil { // crypto/tls would use the RootCAs set above
		c.InsecureSkipVerify = true //nolint:gosec // VerifyConnection does what it leaves out
		c.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, o.Reload.Current().RootCAs, host) }
	}
	return c
}

// verify checks the certificate of an upstream as crypto/tls does.
func verify(state tls.ConnectionState, roots *x509.CertPool, host string) error {
	options := x509.VerifyOptions{Roots: roots, DNSName: host, Intermediates: x509.NewCertPool()}
	for _, c := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	if _, err := state.PeerCertificates[0].Verify(options); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return nil
}

// ErrTLS marks errors of a handshake or certificate.
var ErrTLS = errors.New("TLS")

// Conn opens a connection, with TLS unless settings is nil. Its reads and writes go through open,
// see tcp.New. plain is the connection below TLS, or conn itself. Handshake errors wrap ErrTLS.
func (o OutboundOptions) Conn(ctx context.Context, address string, settings *tls.Config, open tcp.Opener) (conn net.Conn, plain *tcp.Conn, err error) {
	dialed, err := o.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	if plain, err = tcp.New(dialed, open); err != nil {
		_ = dialed.Close()
		return nil, nil, err
	}
	if settings == nil {
		return plain, plain, nil
	}
	secure := tls.Client(&tcp.TLSInput{Conn: plain}, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = plain.Close() // without TLS's close message, which could block
		return nil, nil, &handshakeError{err}
	}
	return secure, plain, nil
}

// A handshakeError wraps ErrTLS but has the text of its cause.
type handshakeError struct{ cause error }

// Error implements error.
func (e *handshakeError) Error() string { return e.cause.Error() }

// Unwrap returns the cause and ErrTLS.
func (e *handshakeError) Unwrap() []error { return []error{e.cause, ErrTLS} }
