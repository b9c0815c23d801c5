package transport_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/transport"
)

// Certificates are verified: with an unknown authority or a wrong name, no request is sent.
func TestTLS(t *testing.T) {
	protos := make(chan string, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protos <- r.TLS.NegotiatedProtocol + " " + r.Proto
		_, _ = io.WriteString(w, "secret")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}} //nolint:gosec // a test's
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	port := strings.TrimPrefix(server.URL, "https://127.0.0.1:")
	old := expired(t)
	roots.AddCert(old.Leaf)
	late := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request went to an expired name") }))
	late.Config.ErrorLog = log.New(io.Discard, "", 0)
	late.TLS = &tls.Config{Certificates: []tls.Certificate{old}} //nolint:gosec // a test's
	late.StartTLS()
	defer late.Close()
	for name, c := range map[string]struct {
		host  string
		roots *x509.CertPool
		body  string
		cause string
	}{
		"trusted":      {"127.0.0.1:" + port, roots, "secret", ""},
		"no authority": {"127.0.0.1:" + port, x509.NewCertPool(), string(transport.TLSFailed), "unknown authority"},
		"another name": {"localhost:" + port, roots, string(transport.TLSFailed), "not localhost"},
		"expired":      {late.Listener.Addr().String(), roots, string(transport.TLSFailed), "expired"},
	} {
		u := newUpstream(t, transport.Config{BaseURL: &url.URL{Scheme: "https", Host: c.host}, Dial: transport.OutboundOptions{RootCAs: c.roots}})
		f := relaying(t, u)
		client := dial(t, f.addr)
		for range 3 {
			client.send(get)
			if _, body := client.message(); body != c.body {
				t.Errorf("%s: got %q", name, body)
			}
			if c.cause != "" {
				if err := await(t, f.errs, "error"); !strings.Contains(err.Error(), c.cause) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if len(protos) != 3 {
		t.Errorf("upstream saw %d requests, want 3", len(protos))
	}
	for len(protos) > 0 {
		if got := <-protos; got != "http/1.1 HTTP/1.1" {
			t.Errorf("upstream saw %s", got)
		}
	}
}

// expired returns a certificate for 127.0.0.1 that was valid until yesterday.
func expired(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(-24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
