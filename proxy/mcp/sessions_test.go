package mcp

import (
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// A port is a Server with requests of one tenant's port, without a network.
type port struct {
	*Server
	conn net.Conn
}

func newPort(t *testing.T) port {
	var tenants tenant.Tenants
	for _, name := range []string{"a", "b"} {
		tenants.Named = append(tenants.Named, &tenant.Policy{Tenant: name, Rewrite: rewrite.Policy{Tenant: name, Mode: rewrite.Inject}})
	}
	directory := tenant.NewDirectory(tenants)
	s := NewServer(Options{Callers: func() *tenant.Directory { return directory }})
	conn, _ := net.Pipe()
	t.Cleanup(s.sessions.close)
	return port{s, &clientConn{Conn: conn, server: s}}
}

func (p port) post(tenant, session, body string) *httptest.ResponseRecorder {
	ctx := context.WithValue(context.Background(), connKey{}, p.conn)
	r := httptest.NewRequest("POST", Path, strings.NewReader(body)).WithContext(context.WithValue(ctx, portKey{}, &transport.Listener{Tenant: tenant}))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func (p port) begin(tenant string) (session string) {
	return p.post(tenant, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`).Header().Get("Mcp-Session-Id")
}

// there reports whether a session is known.
func (p port) there(t *testing.T, tenant, session string) bool {
	t.Helper()
	code := p.post(tenant, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`).Code
	if session == "" || code != 200 && code != 404 {
		t.Fatalf("session %q: %d", session, code)
	}
	return code == 200
}

// The number of sessions is limited. A new one replaces the least recently used session of the
// tenant with the most sessions.
func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPort(t)
		other, used := p.begin("b"), p.begin("a")
		time.Sleep(time.Second)
		first := p.begin("a")
		time.Sleep(time.Second)
		for range maxSessions - 3 {
			p.begin("a")
		}
		time.Sleep(time.Second)
		if n := p.Sessions(); n != maxSessions || !p.there(t, "a", used) {
			t.Fatalf("%d sessions", n)
		}
		last := p.begin("a")
		synctest.Wait()
		if n := p.Sessions(); n != maxSessions || p.there(t, "a", first) || !p.there(t, "a", used) || !p.there(t, "a", last) || !p.there(t, "b", other) {
			t.Errorf("%d sessions; first %v, used %v, last %v, another tenant's %v", n, p.there(t, "a", first), p.there(t, "a", used), p.there(t, "a", last), p.there(t, "b", other))
		}
		p.sessions.close()
	})
}

// A session that is not used for sessionIdle ends and makes room.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPort(t)
		idle, used := p.begin("a"), p.begin("a")
		for range maxSessions - 2 {
			p.begin("b")
		}
		time.Sleep(sessionIdle - time.Second)
		if !p.there(t, "a", used) {
			t.Error("a session ended before its time")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := p.Sessions(); n != 1 || p.there(t, "a", idle) || !p.there(t, "a", used) {
			t.Errorf("%d sessions", n)
		}
		p.begin("a")
		if n := len(p.sessions.all); n != 3 { // the two, and idle, which was used a moment ago
			t.Errorf("%d sessions are remembered", n)
		}
		p.sessions.close()
	})
}
