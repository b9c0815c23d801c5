package proxy_test

import (
	"io"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
)

// A preflight has no credentials. It is relayed without Sidenote's key, for open routes only, and
// the upstream answers it.
func TestPreflight(t *testing.T) {
	const asks = "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n"
	u := newUpstream(t, func(_ seen, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\n\r\n")
	})
	ours := proxy.Upstream{BaseURL: u.url, APIKey: proxy.NewSecret("sk-ours")}
	open := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": ours},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", nil), Origins: []string{"https://app.example"}},
	}, nil)
	keyed := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": ours},
		Tenants:   tenant.Tenants{Keys: []tenant.Key{keyOf("ka", policyOf("acme", nil))}},
	}, nil)
	theirs := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Keys: []tenant.Key{keyOf("ka", policyOf("acme", nil))}},
	}, nil)
	files := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": ours},
		Tenants: tenant.Tenants{Keys: []tenant.Key{
			keyOf("ka", policyOf("acme", nil)), keyOf("kb", policyOf("beta", func(p *tenant.Policy) { p.Routes = []string{"/files"} })),
		}},
	}, nil)
	several := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}, "ours": ours},
		Tenants: tenant.Tenants{Keys: []tenant.Key{
			keyOf("ka", policyOf("acme", nil)), keyOf("kb", policyOf("beta", func(p *tenant.Policy) { p.Upstream = "ours" })),
		}},
	}, nil)
	for _, c := range []struct {
		name   string
		g      *rig
		path   string
		lines  string
		status int
	}{
		{"our key", open, "/v1/chat/completions", asks, 204},
		{"no browser: it has a key", open, "/v1/chat/completions", asks + "Authorization: Bearer ka\r\n", 403},
		{"no browser: it has a body", open, "/v1/chat/completions", asks + "Content-Length: 2\r\n\r\n{}", 403},
		{"no browser: it may have a body", open, "/v1/chat/completions", asks + "Transfer-Encoding: chunked\r\n\r\n0\r\n", 403},
		{"no way to another protocol", open, "/v1/chat/completions", asks + "Connection: Upgrade\r\nUpgrade: websocket\r\n", 204},
		{"a closed route", open, "/v1/files", asks, 403},
		{"a closed method", open, "/v1/chat/completions", strings.ReplaceAll(asks, "POST", "DELETE"), 403},
		{"two readings of a path", open, "/v1/files/..%2fchat/completions", asks, 400},
		{"no page asks", open, "/v1/chat/completions", "Access-Control-Request-Method: POST\r\n", 403},
		{"callers have keys", keyed, "/v1/chat/completions", asks, 204},
		{"callers have keys, a closed route", keyed, "/v1/files", asks, 403},
		{"callers have keys, no page asks", keyed, "/v1/chat/completions", "", 401},
		{"callers have keys, also upstream", theirs, "/v1/chat/completions", asks, 204},
		{"callers have keys, also upstream, a closed route", theirs, "/v1/files", asks, 403},
		{"callers have keys, two readings of a path", theirs, "/v1/../chat/completions", asks, 400},
		{"what one of them may do", files, "/v1/files", asks, 204},
		{"nobody knows where to", several, "/v1/chat/completions", asks, 401},
	} {
		resp := c.g.raw(t, "OPTIONS "+c.path+" HTTP/1.1\r\nHost: x\r\n"+c.lines+"\r\n")
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != c.status {
			t.Errorf("%s: %d, %s, %v; want %d", c.name, resp.StatusCode, body, err, c.status)
		}
		if c.status != 204 {
			continue
		}
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("%s: allowed is %q", c.name, got)
		}
		s := <-u.seen
		if s.line != "OPTIONS "+c.path+" HTTP/1.1" || s.header("Origin") != "https://app.example" || s.header("Authorization")+s.header("Upgrade") != "" {
			t.Errorf("%s: the upstream got %s, %v", c.name, s.line, s)
		}
	}
	if len(u.seen) > 0 {
		t.Error("what was refused reached the upstream")
	}
}
