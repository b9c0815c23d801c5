package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
)

// P5, U18 for certificates: authorities and client certificates are reread at each handshake;
// unusable files are reported and the last good ones stay. The host name is checked as before.
func TestReload(t *testing.T) {
	first, second := transporttest.NewAuthority(), transporttest.NewAuthority()
	end := time.Now().Add(time.Hour)
	var server atomic.Pointer[tls.Certificate]
	serveBy := func(a *transporttest.Authority, names ...string) {
		pair := a.Issue(end, names...).TLS()
		server.Store(&pair)
	}
	clients := first.Pool.Clone()
	clients.AppendCertsFromPEM(second.PEM)
	shown := make(chan string, 1)
	address := listener(t, func(conn net.Conn) {
		secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*server.Load()}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}) //nolint:gosec // a test's
		if secure.Handshake() == nil {
			shown <- strings.Join(secure.ConnectionState().PeerCertificates[0].DNSNames, ",")
			_, _ = secure.Read(make([]byte, 1))
		}
	})
	old, fresh := first.Issue(end, "old.test"), second.Issue(end, "fresh.test")
	pems := map[string][]byte{"ca": first.PEM, "cert": old.Cert, "key": old.Key}
	file := func(name string) transport.CertificateFile {
		return transport.CertificateFile{Path: name, Read: func() ([]byte, error) {
			if pems[name] == nil {
				return nil, errors.New("it is gone")
			}
			return pems[name], nil
		}}
	}
	now := time.Now()
	reload, err := transport.NewReloader([]transport.CertificateFile{file("ca"), file("cert"), file("key")}, func(pems [][]byte) (t transport.Trust, err error) {
		if t.RootCAs, err = transport.CertificateAuthorities(pems[0]); err != nil {
			return t, err
		}
		pair, err := transport.CertificatePair(pems[1], pems[2])
		t.Certificates = []tls.Certificate{pair}
		return t, err
	}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	reload.OnReload = func(err error) { told = append(told, fmt.Sprint(err)) }
	o := transport.OutboundOptions{RootCAs: first.Pool, Certificates: []tls.Certificate{old.TLS()}, Reload: reload}
	for i, step := range []struct {
		change func()
		host   string
		shown  string // "": no connection
		told   string
	}{
		{func() { serveBy(first) }, "127.0.0.1", "old.test", ""},
		{func() { serveBy(first) }, "other.test", "", ""},
		{func() { serveBy(first, "other.test") }, "other.test", "old.test", ""},
		{func() { serveBy(second) }, "127.0.0.1", "", ""},
		{func() { pems["ca"] = second.PEM }, "127.0.0.1", "old.test", "<nil>"},
		{func() { serveBy(first) }, "127.0.0.1", "", ""},
		{func() { serveBy(second); pems["key"] = fresh.Key }, "127.0.0.1", "old.test", "private key does not match public key"},
		{func() { pems["cert"] = nil }, "127.0.0.1", "old.test", `"cert" cannot be read: it is gone`},
		{func() { pems["cert"] = fresh.Cert }, "127.0.0.1", "fresh.test", "<nil>"},
	} {
		told = nil
		step.change()
		now = now.Add(transport.ReloadInterval)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		conn, _, err := o.Conn(ctx, address, o.TLS(step.host), nil)
		cancel()
		got := ""
		switch {
		case err == nil:
			got = <-shown
			_ = conn.Close()
		case !errors.Is(err, transport.ErrTLS):
			t.Errorf("step %d: %v", i, err)
		}
		if all := strings.Join(told, "; "); got != step.shown || all != step.told {
			t.Errorf("step %d: it was shown %q (%v), told %q; want %q, %q", i, got, err, all, step.shown, step.told)
		}
	}
}
