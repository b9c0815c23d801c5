package inspector_test

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
)

// serve starts an admin port with an inspector, and returns its address.
func serve(t testing.TB, data inspector.Data, change func(*admin.Handler)) string {
	t.Helper()
	if data.Overview == nil {
		data.Overview = lastHour(data.Requests)
	}
	h := &admin.Handler{
		Inspector: inspector.New(data, inspector.NewSessions()), Tenants: tenant.NewDirectory(tenant.Tenants{}),
		Lookup: &explain.Knowledge{Bases: func() []string { return nil }},
	}
	if change != nil {
		change(h)
	}
	s := admin.NewServer(h.Handle, slog.New(slog.DiscardHandler), func(v any, stack []byte) { t.Errorf("panic: %v\n%s", v, stack) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	address := "http://" + ln.Addr().String()
	resp, err := http.Get(address + "/healthz") // a server that is stopped before it has started would wait for ever
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return address
}

// lastHour returns the overview of these requests in the minute of the last one: a minute later, the
// first ones would be missing.
func lastHour(texts *explain.Ring, requests ...*report.Report) func() *explain.Overview {
	o, last := explain.NewRecorder(), time.Time{}
	for _, of := range requests {
		o.Record(of)
		if of.Time.After(last) {
			last = of.Time
		}
	}
	if last.IsZero() {
		last = time.Now()
	}
	return func() *explain.Overview { return o.View(last, texts) }
}

func withTokens(token, readToken string) func(*admin.Handler) {
	return func(h *admin.Handler) { h.Token, h.ReadToken = proxy.NewSecret(token), proxy.NewSecret(readToken) }
}

// kept returns a ring of requests with these ids.
func kept(ids ...string) *explain.Ring {
	r := explain.New(1000, explain.BodiesOff)
	for _, id := range ids {
		r.Record(requestOf(id))
	}
	return r
}

func requestOf(id string) *report.Report {
	of := reporttest.Injected()
	of.ID, of.Tenant, of.Status, of.Time, of.Total = id, "acme", 200, time.Now(), 20*time.Millisecond
	of.Rewrite.Model.Row = "gpt-5*"
	return of
}

// A response is an answer of the admin port.
type response struct {
	code int
	http.Header
	body string
}

// ask sends a request as a browser would, but does not follow redirects.
func ask(t testing.TB, method, address, body string, lines ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, string(b)}
}

// Every answer, including refusals, forbids what pages do not need.
func TestHeaders(t *testing.T) {
	open, closed := serve(t, inspector.Data{Requests: kept("a")}, nil), serve(t, inspector.Data{Requests: kept("a")}, withTokens("tok", ""))
	for _, address := range []string{
		open + "/", open + "/overview", open + "/requests", open + "/requests/a", open + "/requests/b", open + "/requests/a/json", open + "/site/style.css", open + "/site/live.js",
		closed + "/", closed + "/requests", closed + "/requests/events", closed + "/signin",
	} {
		a := ask(t, "GET", address, "")
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := a.Get(name); got != want {
				t.Errorf("%s: %d with %s: %q", address, a.code, name, got)
			}
		}
	}
}

// A program that requests / gets a description of the port; a browser is redirected to the first
// page.
func TestHome(t *testing.T) {
	data := inspector.Data{Requests: kept()}
	with, without := serve(t, data, nil), serve(t, data, func(h *admin.Handler) { h.Inspector = nil })
	for _, accept := range []string{"*/*", "application/json", ""} {
		if a := ask(t, "GET", with+"/", "", "Accept: "+accept); a.code != 200 || !strings.Contains(a.body, "/overview") || !strings.Contains(a.body, "/metrics") {
			t.Errorf("%q: %v", accept, a)
		}
		if a := ask(t, "GET", without+"/", "", "Accept: "+accept); a.code != 200 || strings.Contains(a.body, "/overview") || !strings.Contains(a.body, "/metrics") {
			t.Errorf("%q, without pages: %v", accept, a)
		}
	}
	if a := ask(t, "POST", with+"/", "", "Accept: */*"); a.code == 200 {
		t.Errorf("POST: %v", a)
	}
	if a := ask(t, "GET", with+"/", ""); a.code != 303 || a.Get("Location") != "/overview" {
		t.Errorf("a browser: %v", a)
	}
}

// If the admin port requires a token, so do the pages; a session allows only reading, and does not
// contain the token.
func TestSignIn(t *testing.T) {
	address := serve(t, inspector.Data{Requests: kept("a")}, withTokens("tok", "read"))
	for path, next := range map[string]string{"/requests": "%2Frequests", "/requests/a?x=1": "%2Frequests%2Fa%3Fx%3D1", "/requests/a/json": "%2Frequests%2Fa%2Fjson"} {
		if a := ask(t, "GET", address+path, ""); a.code != 303 || a.Get("Location") != "/signin?next="+next || strings.Contains(a.body, "acme") {
			t.Errorf("%s without a session: %v", path, a)
		}
	}
	if a := ask(t, "GET", address+"/requests/events", ""); a.code != 401 {
		t.Errorf("events without a session: %v", a)
	}
	for _, wrong := range []string{"token=nope", "token=", "", "token=to", "x=tok"} {
		a := ask(t, "POST", address+"/signin", wrong+"&next=/requests/a")
		if a.code != 401 || a.Get("Set-Cookie") != "" || !strings.Contains(a.body, "This token is wrong.") || !strings.Contains(a.body, `value="/requests/a"`) {
			t.Errorf("%q: %v", wrong, a)
		}
	}
	for _, token := range []string{"tok", "read"} {
		a := ask(t, "POST", address+"/signin", "token="+token+"&next=/requests/a", "Origin: "+address)
		cookie := a.Get("Set-Cookie")
		if a.code != 303 || a.Get("Location") != "/requests/a" || !strings.HasSuffix(cookie, "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict") || strings.Contains(cookie, token) {
			t.Errorf("%v", a)
		}
		session, _, _ := strings.Cut(cookie, ";")
		if a := ask(t, "GET", address+"/requests/a", "", "Cookie: "+session); a.code != 200 || !strings.Contains(a.body, "acme") || !strings.Contains(a.body, "Sign out") {
			t.Errorf("with a session: %v", a)
		}
		for _, cookies := range []string{"sidenote_session=of.another-port; " + session, session + "; sidenote_session="} {
			if a := ask(t, "GET", address+"/requests/a", "", "Cookie: "+cookies); a.code != 200 {
				t.Errorf("beside a session of another port: %v", a)
			}
		}
		if a := ask(t, "GET", address+"/v1/explain/a", "", "Cookie: "+session); a.code != 401 {
			t.Errorf("a session is no token for programs: %v", a)
		}
		for _, forged := range []string{session + "0", strings.Replace(session, "=", "=9", 1), "sidenote_session=", "sidenote_session=" + token, "sidenote_session=9999999999."} {
			if a := ask(t, "GET", address+"/requests", "", "Cookie: "+forged); a.code != 303 {
				t.Errorf("%s: %v", forged, a)
			}
		}
		if a := ask(t, "POST", address+"/signout", "x=", "Cookie: "+session); a.code != 303 || !strings.HasPrefix(a.Get("Set-Cookie"), "sidenote_session=; Path=/; Max-Age=0;") {
			t.Errorf("signing out: %v", a)
		}
	}
	if a := ask(t, "GET", address+"/requests", "", "Authorization: Bearer read"); a.code != 200 {
		t.Errorf("a bearer token does, too: %v", a)
	}
}

// After signing in, visitors are only redirected to our own pages.
func TestSignInLeadsHome(t *testing.T) {
	address := serve(t, inspector.Data{Requests: kept("a")}, withTokens("tok", ""))
	for next, want := range map[string]string{
		"/requests?tenant=a": "/requests?tenant=a", "//evil.example": "/", "https://evil.example/requests": "/", "/\\evil.example": "/", "/signin": "/", "/site/live.js": "/",
		"/requests\r\nX: y": "/", "": "/", "/requests/../\\evil": "/",
	} {
		if a := ask(t, "POST", address+"/signin", url.Values{"token": {"tok"}, "next": {next}}.Encode()); a.Get("Location") != want || a.Get("X") != "" {
			t.Errorf("%q: %v", next, a)
		}
	}
}

// A session ends with its time, with its token, and with the process.
func TestSessions(t *testing.T) {
	s, tok := inspector.NewSessions(), sha256.Sum256([]byte("tok"))
	session := s.Begin(tok, time.Now().Add(time.Hour))
	if !s.Valid(session, []inspector.Token{{}, tok}) {
		t.Error("a session is not valid")
	}
	if s.Valid(s.Begin(tok, time.Now().Add(-time.Second)), []inspector.Token{tok}) {
		t.Error("a session outlives its time")
	}
	if s.Valid(session, []inspector.Token{sha256.Sum256([]byte("new"))}) || s.Valid(session, nil) {
		t.Error("a session outlives its token")
	}
	if inspector.NewSessions().Valid(session, []inspector.Token{tok}) {
		t.Error("a session outlives the process")
	}
}

// Pages of other sites may not send requests, and only our own host names may be used.
func TestForeignPages(t *testing.T) {
	address := serve(t, inspector.Data{Requests: kept("a")}, withTokens("tok", ""))
	a := ask(t, "POST", address+"/signin", "token=tok")
	session, _, _ := strings.Cut(a.Get("Set-Cookie"), ";")
	for _, path := range []string{"/", "/requests", "/requests/a", "/requests/a/json", "/requests/events", "/signin", "/site/live.js"} {
		for _, origin := range []string{"https://evil.example", "http://localhost:3000", "null"} {
			if a := ask(t, "GET", address+path, "", "Cookie: "+session, "Origin: "+origin); a.code != 403 {
				t.Errorf("%s of %s: %v", path, origin, a)
			}
		}
		if a := ask(t, "GET", address+path, "", "Cookie: "+session, "Host: evil.example"); a.code != 421 {
			t.Errorf("%s of another host: %v", path, a)
		}
	}
	for _, path := range []string{"/signin", "/signout"} {
		if a := ask(t, "POST", address+path, "token=tok", "Cookie: "+session, "Origin: http://localhost:3000"); a.code != 403 || a.Get("Set-Cookie") != "" {
			t.Errorf("POST %s of another page: %v", path, a)
		}
	}
}

// A page of another site or port may link here, but not load anything, not even as an image, for
// which browsers send no Origin.
func TestForeignElements(t *testing.T) {
	address := serve(t, inspector.Data{Requests: kept("a")}, nil)
	for _, c := range []struct {
		site, mode, dest string
		code             int
	}{
		{"", "", "", 200},
		{"none", "navigate", "document", 200},
		{"same-origin", "cors", "empty", 200},
		{"cross-site", "navigate", "document", 200},
		{"same-site", "navigate", "document", 200},
		{"cross-site", "navigate", "iframe", 403},
		{"cross-site", "no-cors", "image", 403},
		{"same-site", "no-cors", "script", 403},
		{"same-site", "cors", "empty", 403},
		{"wrong", "", "", 403},
	} {
		for _, path := range []string{"/overview", "/requests", "/requests/a/json", "/site/live.js", "/signin"} {
			if a := ask(t, "GET", address+path, "", "Sec-Fetch-Site: "+c.site, "Sec-Fetch-Mode: "+c.mode, "Sec-Fetch-Dest: "+c.dest); a.code != c.code {
				t.Errorf("%+v: %s answers %d", c, path, a.code)
			}
		}
	}
	if a := ask(t, "GET", address+"/requests/events", "", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"); a.code != 403 {
		t.Errorf("events as a picture: %v", a)
	}
}

// Whatever bytes a filter has, the page is text; the page does not claim that older requests,
// which were not searched, do not exist.
func TestOddFilters(t *testing.T) {
	r := explain.New(20_000, explain.BodiesOff)
	r.Record(refused())
	for range 10_000 {
		r.Record(requestOf("a"))
	}
	address := serve(t, inspector.Data{Requests: r}, nil) + "/requests"
	for _, query := range []string{"?tenant=%ff%fe%00&text=%80", "?outcome=%22%3E%3Cscript%3E&model=%0d%0a", "?%ff=%ff", "?text=" + strings.Repeat("%f0%9f", 1000), "?tenant=a&tenant=b;c", "??&&==%"} {
		if a := ask(t, "GET", address+query, ""); a.code != 200 || !utf8.ValidString(a.body) || strings.Contains(a.body, "<script>") || strings.Contains(a.body, "\x00") {
			t.Errorf("%s: %d, %.300s", query, a.code, a.body)
		}
	}
	if a := ask(t, "GET", address+"?outcome=refused", ""); !strings.Contains(a.body, "No request passes the filter, of the last 10,000.") || !strings.Contains(a.body, "there are older ones") {
		t.Errorf("%s", a.body)
	}
}

// GET changes nothing, and only the intended methods are allowed.
func TestMethods(t *testing.T) {
	address := serve(t, inspector.Data{Requests: kept("a")}, nil)
	for path, allowed := range map[string]string{"/signout": "POST", "/overview": "GET", "/requests": "GET", "/requests/a": "GET", "/site/live.js": "GET"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			a := ask(t, method, address+path, "")
			if (a.code == 405) == (method == allowed) || a.code == 405 && a.Get("Allow") != allowed {
				t.Errorf("%s %s: %v", method, path, a)
			}
		}
	}
	if a := ask(t, "HEAD", address+"/requests", ""); a.code != 200 || a.body != "" {
		t.Errorf("HEAD: %v", a)
	}
	for _, path := range []string{"/requests/", "/requests/a/b", "/site/", "/site/layout.html", "/nothing"} {
		if a := ask(t, "GET", address+path, ""); a.code != 404 {
			t.Errorf("%s: %v", path, a)
		}
	}
}
