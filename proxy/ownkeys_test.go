package proxy_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
)

// A key made by `sidenote key new` is for Sidenote only: no upstream gets it, on any route or in
// any header line, whether it is known, expired or another Sidenote's.
func TestTenantsKeysStayHere(t *testing.T) {
	const (
		known, expired, foreign = "sk-sidenote-canary-known", "sk-sidenote-canary-old", "sk-sidenote-canary-foreign"
		theirs                  = "sk-theirs"
	)
	u := newUpstream(t, func(s seen, w io.Writer) {
		if s.header("Upgrade") != "" {
			_, _ = io.WriteString(w, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			return
		}
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	})
	late := keyOf(expired, policyOf("acme", nil))
	late.Expires = time.Now().Add(-time.Hour)
	rigFor := func(tenants tenant.Tenants, key string) *rig {
		up := proxy.Upstream{BaseURL: u.url}
		if key != "" {
			up.APIKey = proxy.NewSecret(key)
		}
		return start(t, proxy.Config{Upstreams: map[string]proxy.Upstream{"stub": up}, Tenants: tenants}, nil)
	}
	keys := []tenant.Key{keyOf(known, policyOf("acme", nil)), late, keyOf(theirs, policyOf("beta", nil))}
	keyed := rigFor(tenant.Tenants{Keys: keys}, "")
	open := rigFor(tenant.Tenants{Keys: keys, Unknown: policyOf("web", nil)}, "")
	anyone := rigFor(tenant.Tenants{Unknown: policyOf("web", nil)}, "")
	ours := rigFor(tenant.Tenants{Keys: keys, Unknown: policyOf("web", nil)}, "sk-ours")

	const chatting, listing = "POST /v1/chat/completions", "GET /v1/models"
	const preflight, upgrade = "OPTIONS /v1/chat/completions", "GET /v1/realtime"
	for _, c := range []struct {
		name, request string
		g             *rig
		lines         string
		status        int
		auth          string // the Authorization that the upstream gets
	}{
		{"a tenant's", chatting, keyed, "Authorization: Bearer " + known, 200, ""},
		{"as Azure has it", chatting, keyed, "Api-Key: " + known, 200, ""},
		{"as Anthropic has it", chatting, keyed, "X-API-Key: " + known, 200, ""},
		{"three times", chatting, keyed, "authorization: bearer " + known + "\r\napi-key: " + known + "\r\nx-api-key: " + known, 200, ""},
		{"a relayed route", listing, keyed, "Authorization: Bearer " + known, 200, ""},
		{"an upgrade", upgrade, keyed, "Authorization: Bearer " + known, 101, ""},
		{"an upgrade, as browsers have it", upgrade, open, "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key." + known, 101, ""},
		{"expired", chatting, keyed, "Authorization: Bearer " + expired, 401, ""},
		{"expired, where strangers may ask", listing, open, "Authorization: Bearer " + expired, 401, ""},
		{"unknown", chatting, keyed, "Authorization: Bearer " + foreign, 401, ""},
		{"unknown, where strangers may ask", chatting, open, "Authorization: Bearer " + foreign, 200, ""},
		{"of no scheme, where strangers may ask", listing, open, "Authorization: " + foreign, 200, ""},
		{"beside another key", listing, open, "Authorization: Bearer " + theirs + "\r\nX-Backup-Key: " + foreign, 200, "Bearer " + theirs},
		{"where nobody has a key", chatting, anyone, "Authorization: Bearer " + foreign, 200, ""},
		{"where nobody has a key, twice", listing, anyone, "Authorization: Bearer sk-x\r\nAuthorization: Bearer " + foreign, 200, "Bearer sk-x"},
		{"with _ for -", listing, anyone, "Api_Key: " + foreign, 200, ""},
		{"with the upstream's own", chatting, ours, "Authorization: Bearer " + known + "\r\nX-Backup-Key: " + known, 200, "Bearer sk-ours"},
		{"a preflight", preflight, keyed, "Origin: http://localhost\r\nAccess-Control-Request-Method: POST\r\nAuthorization: " + foreign, 200, ""},
		{"in the URL", listing + "?key=" + foreign, open, "X-A: b", 400, ""},
		{"the upstream's own of a tenant", listing, keyed, "Authorization: Bearer " + theirs, 200, "Bearer " + theirs},
		{"anybody's own", listing, anyone, "Authorization: Bearer sk-other", 200, "Bearer sk-other"},
	} {
		request := c.request + " HTTP/1.1\r\nHost: localhost\r\n" + c.lines + "\r\n"
		switch c.request {
		case chatting:
			request = chatRequest(chatBody, strings.Split(c.lines, "\r\n")...)
		case upgrade:
			request += "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
		default:
			request += "\r\n"
		}
		if resp := c.g.raw(t, request); resp.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", c.name, resp.StatusCode, c.status)
		}
		if c.status >= 400 {
			if len(u.seen) > 0 {
				t.Errorf("%s: what was refused reached the upstream: %v", c.name, <-u.seen)
			}
			continue
		}
		s := u.next(t)
		if text := s.line + strings.Join(s.head, "\n"); strings.Contains(text, "sk-sidenote-") || s.header("Authorization") != c.auth {
			t.Errorf("%s: the upstream got %s", c.name, text)
		}
	}
}
