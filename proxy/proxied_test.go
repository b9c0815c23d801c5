package proxy_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
)

// headerOf returns a PROXY protocol header for a client.
func headerOf(t *testing.T, version byte, client string) string {
	t.Helper()
	h := proxyproto.HeaderProxyFromAddrs(version, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client)), net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:8080")))
	text, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// T09: a trusted load balancer reports its client's address by the PROXY protocol, also under TLS.
// The client is judged by that address and not by the load balancer's. An untrusted one's header
// is not accepted, and a trusted connection without a header is not answered.
func TestProxyProtocol(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("web", nil), Named: []*tenant.Policy{policyOf("acme", nil)}, Trusted: local},
	}, nil)
	authority := transporttest.NewAuthority()
	settings := &tls.Config{Certificates: []tls.Certificate{authority.Issue(time.Now().Add(time.Hour)).TLS()}, MinVersion: tls.VersionTLS12}
	refused := make(chan error, 10)
	tell := func(err error) { refused <- err }
	plain := g.serveOn(t, transport.Listener{Proxies: local, Refused: tell})
	secure := g.serveOn(t, transport.Listener{Proxies: local, Refused: tell, TLS: settings})
	stranger := g.serveOn(t, transport.Listener{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	v1, v2 := headerOf(t, 1, "203.0.113.9:1234"), headerOf(t, 2, "[2001:db8::1]:1234")
	own := headerOf(t, 2, "127.0.0.1:1")
	localOnly := "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00" // the header of a health check
	const get, named = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n", "Sidenote-Tenant: acme\r\n"
	for name, c := range map[string]struct {
		addr   string
		secure bool
		pieces []string
		status int // 0: no answer
		want   string
	}{
		"version 1":                 {plain, false, []string{v1 + get + "\r\n"}, 200, "203.0.113.9"},
		"version 2":                 {plain, false, []string{v2 + get + "\r\n"}, 200, "2001:db8::1"},
		"in pieces":                 {plain, false, []string{v1, get, "\r\n"}, 200, "203.0.113.9"},
		"of the load balancer":      {plain, false, []string{localOnly + get + "\r\n"}, 200, "127.0.0.1"},
		"of nobody":                 {plain, false, []string{"PROXY UNKNOWN\r\n" + get + "\r\n"}, 200, "127.0.0.1"},
		"TLS":                       {secure, true, []string{v1, get + "\r\n"}, 200, "203.0.113.9"},
		"a client names a tenant":   {plain, false, []string{v1 + get + named + "\r\n"}, 401, "203.0.113.9"},
		"a trusted one does":        {plain, false, []string{own + get + named + "\r\n"}, 200, "127.0.0.1"},
		"no header":                 {plain, false, []string{get + "\r\n"}, 0, ""},
		"TLS without one":           {secure, true, []string{"", get + "\r\n"}, 0, ""},
		"a broken one":              {plain, false, []string{"PROXY TCP4 203.0.113.9\r\n" + get + "\r\n"}, 0, ""},
		"a long one":                {plain, false, []string{"PROXY TCP4 " + strings.Repeat("1", 200) + "\r\n" + get + "\r\n"}, 0, ""},
		"of one who is not trusted": {stranger, false, []string{v1 + get + "\r\n"}, 400, ""},
		"none there":                {stranger, false, []string{get + "\r\n"}, 200, "127.0.0.1"},
	} {
		status := sendProxied(t, c.addr, c.secure, c.pieces)
		if status != c.status {
			t.Errorf("%s: status %d, want %d", name, status, c.status)
			continue
		}
		switch {
		case status == 0:
			select {
			case err := <-refused:
				if !errors.Is(err, proxyproto.ErrNoProxyProtocol) && strings.HasPrefix(name, "no") {
					t.Errorf("%s: %v", name, err)
				}
			case <-time.After(patience):
				t.Errorf("%s: nobody was told", name)
			}
		case c.want != "":
			if r := <-g.reports; r.Address.String() != c.want {
				t.Errorf("%s: address %s, want %s", name, r.Address, c.want)
			}
		}
		if status == 200 {
			u.next(t)
		} else if len(u.seen) > 0 {
			t.Errorf("%s: it reached the upstream: %v", name, <-u.seen)
		}
	}
}

// sendProxied sends pieces, the first one in plain text, and returns the status of the answer, 0
// if the connection ends without one.
func sendProxied(t *testing.T, addr string, secure bool, pieces []string) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for i, piece := range pieces {
		if _, err := io.WriteString(c, piece); err != nil {
			return 0
		}
		if i == 0 && secure {
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test's
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			t.Errorf("%q: no end: %v", pieces, err)
		}
		return 0
	}
	return resp.StatusCode
}
