package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/proxy/tenant/tenanttest"
	"sidenote/proxy/transport"
	"sidenote/proxy/transport/transporttest"
)

// A port is a listener of a rig, with a client for it.
type port struct {
	name    string
	tenant  string // of the listener
	trusted bool   // the client's certificate names a trusted peer
	dial    func() (net.Conn, error)

	conn   net.Conn // nil: none is open
	reader *bufio.Reader
}

// send sends a request, on the previous connection if that is still open.
func (p *port) send(t *testing.T, request string) *http.Response {
	t.Helper()
	if p.conn == nil {
		c, err := p.dial()
		if err != nil {
			t.Fatal(err)
		}
		p.conn, p.reader = c, bufio.NewReader(c)
	}
	if err := p.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(p.conn, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(p.reader, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s: read the answer: %v", p.name, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: read the answer: %v", p.name, err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if resp.Close {
		p.close()
	}
	return resp
}

func (p *port) close() {
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
}

// serveOn opens another listener of a rig.
func (g *rig) serveOn(t *testing.T, settings transport.Listener) (addr string) {
	t.Helper()
	var err error
	if settings.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(&settings) }()
	t.Cleanup(func() { // before the rig's cleanup
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		<-served
	})
	return settings.Addr().String()
}

// portsOf opens a listener of each kind. Certificates of gateway.test belong to a trusted peer,
// those of app.test do not.
func portsOf(t *testing.T, g *rig) []*port {
	t.Helper()
	authority := transporttest.NewAuthority()
	end := time.Now().Add(time.Hour)
	pair := authority.Issue(end).TLS()
	plain := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	mutual := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: authority.Pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	over := func(addr, name string) func() (net.Conn, error) {
		client := &tls.Config{RootCAs: authority.Pool, Certificates: []tls.Certificate{authority.Issue(end, name).TLS()}, MinVersion: tls.VersionTLS12}
		return func() (net.Conn, error) { return tls.Dial("tcp", addr, client) }
	}
	tenant := g.serveOn(t, transport.Listener{Tenant: "port"})
	secure := g.serveOn(t, transport.Listener{TLS: plain})
	verified := g.serveOn(t, transport.Listener{TLS: mutual})
	both := g.serveOn(t, transport.Listener{TLS: mutual, Tenant: "port"})
	all := []*port{
		{name: "tenant", tenant: "port", dial: func() (net.Conn, error) { return net.Dial("tcp", tenant) }},
		{name: "TLS, a certificate that nobody asked for", dial: over(secure, "gateway.test")},
		{name: "client_ca, a trusted peer", trusted: true, dial: over(verified, "gateway.test")},
		{name: "client_ca, another peer", dial: over(verified, "app.test")},
		{name: "client_ca and tenant", tenant: "port", dial: over(both, "gateway.test")},
	}
	for _, p := range all {
		t.Cleanup(p.close)
	}
	return all
}

// P14, T09, T12: on each kind of listener each credential identifies the right caller, on each
// route and under each policy. A listener's tenant cannot be changed by anything in a request, and
// anything that names a tenant is not forwarded.
func TestListenerMatrix(t *testing.T) {
	s, u := tenanttest.NewSigner(t), newUpstream(t, answerJSON("{}"))
	routes, policies := matrix()
	anybody, ofTrusted := credentials(t, s)
	refusals := map[string]bool{}
	for policy, change := range policies {
		named := map[string]*tenant.Policy{}
		for _, name := range []string{"key", "jwt", "jwt2", "header", "port"} {
			named[name] = policyOf(name, change)
		}
		old, early := keyOf("k-old", named["key"]), keyOf("k-early", named["key"])
		old.Expires, early.NotBefore = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}, "ours": {BaseURL: u.url, APIKey: proxy.NewSecret("sk-ours")}},
			Tenants: tenant.Tenants{
				Keys:    []tenant.Key{keyOf("k-key", named["key"]), old, early},
				Issuers: []tenant.Issuer{s.Trusted()}, Named: slices.Collect(maps.Values(named)), Certificates: []string{"gateway.test"},
				Rules: []tenant.ClaimRule{
					{Tenant: "jwt", Issuer: tenanttest.Name, Claims: map[string][]string{"groups": {"jwt"}}},
					{Tenant: "jwt2", Issuer: tenanttest.Name, Claims: map[string][]string{"groups": {"jwt2"}}},
				},
			},
		}, nil)
		for _, p := range portsOf(t, g) {
			for route, line := range routes {
				check := func(name string, c sentAs) {
					t.Helper()
					cell := strings.Join([]string{p.name, name, policy, route}, ", ")
					c, up := onPort(p, c, policy)
					status := statusOf(c, policy, route)
					if status == 401 {
						c.tenant, c.by = "", ""
					}
					checkCell(t, g, u, p.send, cell, line, c, status, up, refusals)
				}
				for name, c := range anybody {
					check(name, c)
				}
				for name, c := range ofTrusted {
					if !p.trusted && p.tenant == "" {
						c.tenant = denied
					}
					check("header "+name, c)
				}
			}
		}
	}
	if len(refusals) != 2 { // one with a credential, one without
		t.Errorf("refusals differ: %v", slices.Collect(maps.Keys(refusals)))
	}
}

// onPort returns whom a credential identifies on a port where unknown callers are refused, and the
// credential that is forwarded.
func onPort(p *port, c sentAs, policy string) (sentAs, string) {
	if p.tenant == "" {
		if c.tenant == "" {
			c.tenant = denied
		}
		return c, relayed(c, policy)
	}
	ours := strings.Contains(strings.Join(c.lines, " "), "k-nobody") || len(c.lines) == 0 || c.tenant == ""
	c.tenant, c.by = p.tenant, "listener"
	up := relayed(c, policy)
	if !ours && policy != "ours" {
		up = ""
	}
	return c, up
}

// statusOf returns the status that a caller gets for a route under a policy.
func statusOf(c sentAs, policy, route string) int {
	switch {
	case c.tenant == denied:
		return 401
	case policy == "ours" && route == "spelt":
		return 400
	case policy == "ours" && route != "chat":
		return 403
	}
	return 200
}
