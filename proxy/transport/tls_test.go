package transport_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"sidenote/proxy/transport"
)

// Certificates count: no authority or another name, no request.
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
	for name, c := range map[string]struct {
		host  string
		roots *x509.CertPool
		body  string
	}{
		"trusted":      {"127.0.0.1", roots, "secret"},
		"no authority": {"127.0.0.1", x509.NewCertPool(), string(transport.TLSFailed)},
		"another name": {"localhost", roots, string(transport.TLSFailed)},
	} {
		u := newUpstream(t, transport.Config{BaseURL: &url.URL{Scheme: "https", Host: c.host + ":" + port}, RootCAs: c.roots})
		f := relaying(t, u)
		client := dial(t, f.addr)
		for range 3 {
			client.send(get)
			if _, body := client.message(); body != c.body {
				t.Errorf("%s: got %q", name, body)
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
