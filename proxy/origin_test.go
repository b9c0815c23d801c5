package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
)

// An elsewhere is a listener whose connections have a local address that other machines can reach.
type elsewhere struct{ net.Listener }

func (l elsewhere) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return reachedConn{c}, err
}

type reachedConn struct{ net.Conn }

func (reachedConn) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8080} }

// elsewhere makes g serve on such a listener, too, and returns a rig that calls it there.
func (g *rig) elsewhere(t *testing.T) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(elsewhere{ln}) }()
	t.Cleanup(func() { ln.Close(); <-served })
	other := *g
	other.addr = ln.Addr().String()
	return &other
}

// startKeyless starts a rig that serves callers without a key and one tenant with the key "ka".
func startKeyless(t *testing.T, u *stubUpstream) *rig {
	t.Helper()
	return openIn(t, u, func(c *proxy.Config) {
		c.Tenants.Keys = []tenant.Key{keyOf("ka", policyOf("beta", nil))}
		c.Tenants.Origins = []string{"https://app.example", "http://*.dev.example:3000", "moz-extension:"}
		c.Tenants.Hosts = []string{"sidenote.example", "*.corp.example"}
	})
}

// want sends a request and compares the status of the answer. A refusal must name the key of the
// configuration that would allow the request, and the request must not reach the upstream.
func (g *rig) want(t *testing.T, u *stubUpstream, name, request string, status int, key string) {
	t.Helper()
	resp := g.raw(t, request)
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Errorf("%s: %d %s, %v; want %d", name, resp.StatusCode, body, err, status)
		return
	}
	if key == "" {
		u.next(t)
		return
	}
	var answer struct {
		Error struct{ Message, Type, Code, Param string }
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Error.Type != "invalid_request_error" || !strings.Contains(answer.Error.Message, key) {
		t.Errorf("%s: does not name %s: %s", name, key, body)
	}
	if h := resp.Header; h.Get("X-Should-Retry") != "false" || h.Get("Sidenote-Id") == "" || strings.Contains(fmt.Sprint(h), "kb-acme") {
		t.Errorf("%s: %v", name, h)
	}
	if len(u.seen) > 0 {
		t.Errorf("%s: it reached the upstream", name)
	}
}

// A web page in a browser may not send the requests that a program on this machine may send, on
// any route.
func TestPagesOfOtherSites(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := startKeyless(t, u)
	for _, c := range []struct {
		origins string // header lines
		status  int
	}{
		{"Origin: https://evil.example", 403},
		{"Origin: null", 403},
		{"Origin:", 403},
		{"Origin: http://127.0.0.1.nip.io", 403},
		{"Origin: http://localhost.evil.example:8080", 403},
		{"Origin: http://x:8080", 403}, // it is never compared with Host
		{"Origin: http://192.168.1.7", 403},
		{"Origin: http://localhost@evil.example", 403},
		{"Origin: http://evil.example#http://localhost", 403},
		{"Origin: http://localhost/evil", 403},
		{"Origin: http://localhost:80x", 403},
		{"Origin: ftp://localhost", 403},
		{"Origin: file://", 403},
		{"Origin: localhost:3000", 403},
		{"Origin: applet://x", 403},
		{"Origin: http://app.example", 403},
		{"Origin: https://app.example:8443", 403},
		{"Origin: https://app.example.evil.example", 403},
		{"Origin: https://a.dev.example", 403},
		{"Origin: http://dev.example:3000", 403},
		{"Origin: http://localhost:3000, https://evil.example", 403},
		{"Origin: http://localhost:3000 https://evil.example", 403},
		{"Origin: http://localhost:3000\r\nOrigin: https://evil.example", 403},
		{"Origin: https://evil.example\r\nOrigin: http://localhost:3000", 403},
		{"origin: https://evil.example", 403},
		{"ORIGIN: https://evil.example", 403},
		{"", 200},
		{"Origin: http://localhost", 200},
		{"Origin: http://localhost:3000", 200},
		{"Origin: HTTPS://LocalHost:3000", 200},
		{"Origin: http://app.localhost:5173", 200},
		{"Origin: https://127.0.0.1", 200},
		{"Origin: http://127.3.2.1:8080", 200},
		{"Origin: http://[::1]:8080", 200},
		{"Origin: http://[::1]", 200},
		{"Origin: app://obsidian.md", 200},
		{"Origin: tauri://localhost", 200},
		{"Origin: vscode-webview://0a1b2c", 200},
		{"Origin: https://app.example", 200},
		{"Origin: https://APP.example:443", 200},
		{"Origin: http://a.b.dev.example:3000", 200},
		{"Origin: moz-extension://6f2d", 200},
		{"Origin: http://localhost:3000\r\nOrigin: http://localhost:3000", 200},
		// A caller with a key is not a page of another site.
		{"Origin: https://evil.example\r\nAuthorization: Bearer ka", 200},
		{"Origin: https://evil.example\r\nAuthorization: Bearer nobody's", 403},
	} {
		lines := strings.TrimPrefix(c.origins+"\r\n", "\r\n")
		key := map[int]string{403: "identity.origins"}[c.status]
		for name, request := range map[string]string{
			"chat":    "POST /v1/chat/completions HTTP/1.1\r\nHost: x:8080\r\n" + lines + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(chatBody), chatBody),
			"other":   "GET /v1/files HTTP/1.1\r\nHost: x:8080\r\n" + lines + "\r\n",
			"upgrade": "GET /v1/realtime HTTP/1.1\r\nHost: x:8080\r\n" + lines + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		} {
			g.want(t, u, name+" "+c.origins, request, c.status, key)
			g.elsewhere(t).want(t, u, "elsewhere, "+name+" "+c.origins, request, c.status, key)
		}
	}
}

// On a loopback address, Sidenote must not be called by a name that a page can make
// resolve to this machine (DNS rebinding).
func TestNamesOnLoopback(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := startKeyless(t, u)
	away := g.elsewhere(t)
	for _, c := range []struct {
		host   string
		status int
	}{
		{"evil.example", 421},
		{"evil.example:8080", 421},
		{"127.0.0.1.nip.io", 421},
		{"127.0.0.1.nip.io:8080", 421},
		{"evil.example.", 421},
		{"localhost.evil.example", 421},
		{"evillocalhost.example", 421},
		{"notlocal.example.local.evil", 421},
		{"user@localhost", 421},
		{"localhost:80@evil.example", 421},
		{"example", 200},
		{"corp.example", 421},
		{"evilcorp.example", 421},
		{"sidenote.example.evil.example", 421},
		{"localhost", 200},
		{"localhost:8080", 200},
		{"localhost.", 200},
		{"LocalHost.:8080", 200},
		{"app.localhost:8080", 200},
		{"127.0.0.1", 200},
		{"127.0.0.1:8080", 200},
		{"192.168.1.7:8080", 200},
		{"[::1]", 200},
		{"[::1]:8080", 200},
		{"[fe80::1%25eth0]:8080", 200},
		{"sidenote", 200},
		{"sidenote:8080", 200},
		{"my_service:8080", 200},
		{"mac.local", 200},
		{"host.docker.internal:8080", 200},
		{"HOST.Docker.Internal", 200},
		{"sidenote.example:8080", 200},
		{"Sidenote.Example.", 200},
		{"a.corp.example", 200},
	} {
		key := map[int]string{421: "identity.hosts"}[c.status]
		for name, head := range map[string]string{
			"chat":    "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\n{}",
			"other":   "GET /v1/files HTTP/1.1\r\nHost: %s\r\n\r\n",
			"upgrade": "GET /v1/realtime HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
			"1.0":     "GET /v1/files HTTP/1.0\r\nHost: %s\r\n\r\n",
			"target":  "GET http://%s/v1/files HTTP/1.1\r\nHost: localhost\r\n\r\n",
		} {
			request := fmt.Sprintf(head, c.host)
			if name == "target" && strings.ContainsAny(c.host, "@%") {
				continue // not a valid target in HTTP
			}
			g.want(t, u, name+" "+c.host, request, c.status, key)
			away.want(t, u, "elsewhere, "+name+" "+c.host, request, 200, "")
		}
	}
	// A browser always sends a host name; only programs send none.
	g.want(t, u, "no Host", "GET /v1/files HTTP/1.0\r\n\r\n", 200, "")
	g.want(t, u, "no Host, absolute form", "GET http://evil.example/v1/files HTTP/1.0\r\n\r\n", 421, "identity.hosts")
	g.want(t, u, "absolute form, userinfo", "GET http://localhost@evil.example/v1/files HTTP/1.0\r\n\r\n", 421, "identity.hosts")
	g.want(t, u, "with a key", "GET /v1/files HTTP/1.1\r\nHost: evil.example\r\nX-Api-Key: ka\r\n\r\n", 200, "")
}

// A preflight has no key. It is refused only if the request after it would need none.
func TestPreflights(t *testing.T) {
	u := newUpstream(t, func(_ seen, w io.Writer) {
		_, _ = io.WriteString(w, "HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\n\r\n")
	})
	preflight := func(origin, host string) string {
		return "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: " + host + "\r\nOrigin: " + origin + "\r\nAccess-Control-Request-Method: POST\r\n\r\n"
	}
	welcome := startKeyless(t, u)
	welcome.want(t, u, "foreign page", preflight("https://evil.example", "localhost"), 403, "identity.origins")
	welcome.want(t, u, "foreign name", preflight("http://localhost:3000", "evil.example"), 421, "identity.hosts")
	welcome.want(t, u, "own page", preflight("http://localhost:3000", "localhost"), 204, "")
	welcome.want(t, u, "listed page", preflight("https://app.example", "sidenote.example"), 204, "")

	keyed := openIn(t, u, func(c *proxy.Config) {
		c.Tenants = tenant.Tenants{Keys: []tenant.Key{keyOf("ka", policyOf("beta", nil))}}
	})
	keyed.want(t, u, "all have keys", preflight("https://evil.example", "evil.example"), 204, "")
	resp := keyed.raw(t, "GET /v1/files HTTP/1.1\r\nHost: evil.example\r\nOrigin: https://evil.example\r\n\r\n")
	if resp.StatusCode != 401 {
		t.Errorf("nobody gets in without a key, and %d says something else", resp.StatusCode)
	}
}
