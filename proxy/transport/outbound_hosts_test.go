package transport_test

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
)

// With authorities that are reread, the certificate must name the host that is dialed, or one of
// the addresses if the host is an address.
func TestTLSAmongVerifiesTheHost(t *testing.T) {
	authority, stranger := transporttest.NewAuthority(), transporttest.NewAuthority()
	end := time.Now().Add(time.Hour)
	for _, c := range []struct {
		by    *transporttest.Authority
		names []string // of the server
		dial  string   // the ServerName that the dialer sets
		hosts []string
		ok    bool
	}{
		{authority, []string{"a.test"}, "a.test", []string{"a.test", "b.test"}, true},
		{authority, []string{"b.test"}, "a.test", []string{"a.test", "b.test"}, false},
		{stranger, []string{"a.test"}, "a.test", []string{"a.test"}, false},
		{authority, nil, "127.0.0.1", []string{"127.0.0.1"}, true},
		{authority, nil, "127.0.0.1", []string{"a.test", "127.0.0.1"}, true},
		{authority, nil, "127.0.0.1", []string{"10.0.0.1"}, false},
		{authority, nil, "", []string{"a.test"}, false},
		{authority, []string{"a.test"}, "", []string{"a.test"}, false},
	} {
		pair := c.by.Issue(end, c.names...).TLS()
		address := listener(t, func(conn net.Conn) {
			secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}}) //nolint:gosec // a test's
			if secure.Handshake() == nil {
				_, _ = secure.Read(make([]byte, 1))
			}
		})
		reload, err := transport.NewReloader([]transport.CertificateFile{{Path: "ca", Read: func() ([]byte, error) { return authority.PEM, nil }}}, func(pems [][]byte) (t transport.Trust, err error) {
			t.RootCAs, err = transport.CertificateAuthorities(pems[0])
			return t, err
		}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		o := transport.OutboundOptions{RootCAs: authority.Pool, Reload: reload}
		settings := o.TLSAmong(c.hosts)
		settings.ServerName = c.dial
		conn, _, err := o.Conn(t.Context(), address, settings, nil)
		if err == nil {
			_ = conn.Close()
		} else if !errors.Is(err, transport.ErrTLS) {
			t.Errorf("%+v: %v", c, err)
		}
		if (err == nil) != c.ok {
			t.Errorf("server %v, dialed as %q among %v: %v", c.names, c.dial, c.hosts, err)
		}
	}
}
