package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
)

// oneStore is a Library of one store, kb1.
type oneStore struct{}

func (oneStore) Store(id string) (explain.Store, bool) {
	return explain.Store{Generation: "g"}, id == "kb1"
}
func (oneStore) Candidates(context.Context, retrieval.Query) (retrieval.Result, error) {
	return retrieval.Result{}, nil
}

// A request is a request to the admin port.
type request struct{ method, path, body string }

// writes returns all requests that change state.
func writes() []request {
	return []request{
		{"POST", "/v1/knowledge", `{"id":"kb1"}`},
		{"DELETE", "/v1/knowledge/kb1", ""},
		{"POST", "/v1/knowledge/kb1/ingest", ""},
		{"POST", "/v1/knowledge/kb1/documents", `{"documents":[{"id":"a","text":"x"}]}`},
		{"PUT", "/v1/knowledge/kb1/documents/a", `{"text":"x"}`},
		{"DELETE", "/v1/knowledge/kb1/documents/a", ""},
		{"POST", "/v1/mode", `{"mode":"off"}`}, {"POST", "/v1/reload", `{}`},
	}
}

// reads returns requests that change nothing, with and without a body.
func reads() []request {
	return []request{
		{"GET", "/v1/knowledge", ""}, {"GET", "/v1/knowledge/kb1", ""}, {"GET", "/v1/knowledge/kb1/documents", ""}, {"GET", "/v1/knowledge/kb1/documents/a", ""},
		{"POST", "/v1/search", `{"query":"leave"}`}, {"POST", "/v1/rewrite?tenant=acme", chatBody},
		{"GET", "/v1/vector_stores", ""}, {"POST", "/v1/vector_stores/kb1/search", `{"query":"leave"}`},
		{"GET", "/v1/calibration", ""}, {"GET", "/v1/mode", ""}, {"GET", "/metrics", ""},
	}
}

// startWith starts an admin port with these tokens; state is that of the state folder. "" means no
// token.
func startWith(t *testing.T, token, readToken, state string) string {
	t.Helper()
	modes, err := tenant.NewSwitch(nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	h := handler(func(h *admin.Handler) {
		h.Modes = modes
		h.Reload = func(context.Context) (admin.Reloaded, error) { return admin.Reloaded{Object: "reload"}, nil }
		h.Manager, h.Library = &fakeManager{ids: []string{"a"}}, oneStore{}
		h.Token, h.ReadToken = proxy.NewSecret(token), proxy.NewSecret(readToken)
		h.StateToken = func() (string, error) {
			if state == "" {
				return "", errors.New("the state is in memory")
			}
			return state, nil
		}
	})
	return listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler)))
}

// T06, T14: each token allows its purpose: reading and writing, or reading only.
func TestWritesNeedTheToken(t *testing.T) {
	f := func(url, bearer string, read, write int, why string) {
		t.Helper()
		lines := []string{"Content-Type: application/json"}
		if bearer != "" {
			lines = append(lines, "Authorization: Bearer "+bearer)
		}
		for _, r := range reads() {
			if code, body := call(t, r.method, url+r.path, r.body, lines...); code != read {
				t.Errorf("%s %s with %q: %d, want %d: %s", r.method, r.path, bearer, code, read, body)
			}
		}
		for _, r := range writes() {
			if code, body := call(t, r.method, url+r.path, r.body, lines...); code != write || !strings.Contains(body, why) {
				t.Errorf("%s %s with %q: %d, want %d: %s", r.method, r.path, bearer, code, write, body)
			}
		}
	}
	made := startWith(t, "", "", "state")
	f(made, "", 200, 401, "in the file admin-token of the state folder")
	f(made, "stat", 200, 401, "invalid_api_key")
	configured := startWith(t, "tok", "", "state")
	f(configured, "", 401, 401, "")
	f(configured, "state", 401, 401, "")
	none := startWith(t, "", "", "")
	for _, bearer := range []string{"", "state", "tok"} {
		f(none, bearer, 200, 403, "There is no admin token to write with: the state is in memory. Set SIDENOTE_ADMIN_TOKEN or admin.token.")
	}
	// These may read and write.
	for url, bearer := range map[string]string{made: "state", configured: "tok", startWith(t, "", "read", "state"): "state"} {
		for _, r := range append(reads(), writes()...) {
			if code, body := call(t, r.method, url+r.path, r.body, "Content-Type: application/json", "Authorization: bearer "+bearer); code/100 != 2 {
				t.Errorf("%s %s with %q: %d, %s", r.method, r.path, bearer, code, body)
			}
		}
	}
}

// The read token allows only reading, whatever other tokens are configured.
func TestReadTokenOnlyReads(t *testing.T) {
	for _, token := range []string{"tok", ""} {
		url := startWith(t, token, "read", "state")
		for _, r := range reads() {
			if code, body := call(t, r.method, url+r.path, r.body, "Authorization: Bearer read", "Host: central.svc:8081"); code != 200 {
				t.Errorf("%s %s: %d, %s", r.method, r.path, code, body)
			}
			if code, body := call(t, r.method, url+r.path, r.body); code != 401 {
				t.Errorf("%s %s without it: %d, %s", r.method, r.path, code, body)
			}
		}
		for _, r := range writes() {
			if code, body := call(t, r.method, url+r.path, r.body, "Authorization: Bearer read", "Content-Type: application/json"); code != 403 || !strings.Contains(body, "read_only_token") {
				t.Errorf("%s %s: %d, %s", r.method, r.path, code, body)
			}
		}
	}
	url := startWith(t, "", "read", "") // no token allows writing, but a caller without read access is not told so
	if code, body := call(t, "DELETE", url+"/v1/knowledge/kb1", ""); code != 401 || strings.Contains(body, "memory") {
		t.Errorf("%d, %s", code, body)
	}
}

// A write must be a request that no page can send: with a JSON body and without an origin.
func TestWritesAreJSON(t *testing.T) {
	url := startWith(t, "", "", "state")
	f := func(r request, status int, lines ...string) {
		t.Helper()
		code, body := call(t, r.method, url+r.path, r.body, append(lines, "Authorization: Bearer state")...)
		if code != status || code == 415 && !strings.Contains(body, "application/json") {
			t.Errorf("%s %s %q: %d, want %d: %s", r.method, r.path, lines, code, status, body)
		}
	}
	for _, r := range writes() {
		if r.body == "" {
			f(r, map[string]int{"POST": 202, "DELETE": 200}[r.method]) // without a body no type is needed
		} else {
			f(r, 415)
		}
		for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonl", "application/json, text/plain", "x"} {
			if r.path == "/v1/knowledge/kb1/documents" && strings.HasPrefix(media, "multipart/") { // it takes files
				continue
			}
			f(r, 415, "Content-Type: "+media)
		}
	}
	put := request{"PUT", "/v1/knowledge/kb1/documents/a", `{"text":"x"}`}
	f(put, 201, "Content-Type: application/json; charset=utf-8")
	f(put, 201, "Content-Type: Application/JSON")
	f(request{"POST", "/v1/knowledge/kb1/ingest", "{}"}, 415)
	f(request{"POST", "/v1/knowledge/kb1/ingest", "{}"}, 202, "Content-Type: application/json")
	for _, r := range reads() {
		f(r, 200, "Content-Type: text/plain")
	}
}

// A body needs a content type in either framing; a request without a body needs none.
func TestWritesInOtherWords(t *testing.T) {
	url := startWith(t, "", "", "state")
	f := func(lines, body, want string) {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/knowledge/kb1/ingest HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer state\r\n%sConnection: close\r\n\r\n%s", lines, body)
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
			t.Errorf("%q: %s, %v", lines, answer, err)
		}
	}
	f("", "", "202")
	f("Content-Length: 0\r\n", "", "202")
	f("Content-Length: 2\r\n", "{}", "415")
	f("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n", "415")
	f("Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n", "2\r\n{}\r\n0\r\n\r\n", "202")
}

// Requests from pages of other origins are refused, including those of this machine; a caller with
// a token may use any host name.
func TestForeignPagesAreRefused(t *testing.T) {
	url := startWith(t, "", "read", "state")
	host := strings.TrimPrefix(url, "http://")
	read, write := reads()[4], writes()[0]
	f := func(r request, status int, lines ...string) {
		t.Helper()
		if code, body := call(t, r.method, url+r.path, r.body, append(lines, "Content-Type: application/json")...); code != status {
			t.Errorf("%s %s %q: %d, want %d: %s", r.method, r.path, lines, code, status, body)
		}
	}
	const state, readOnly = "Authorization: Bearer state", "Authorization: Bearer read"
	for _, origin := range []string{"http://localhost:3000", "http://127.0.0.1:3000", "http://" + host + "0", "https://evil.example", "null", "file://", "vscode-webview://x", "http://"} {
		f(write, 403, "Origin: "+origin, state)
		f(write, 403, "Origin: "+origin)
		f(read, 403, "Origin: "+origin)
	}
	f(read, 403, "Origin: https://evil.example", readOnly)
	f(read, 200, "Origin: http://localhost:3000", readOnly) // a page cannot have the token
	f(write, 200, "Origin: http://"+host, state)
	f(read, 200, "Origin: http://"+host, readOnly)
	f(write, 200, "Origin: http://central.svc:8081", "Host: central.svc:8081", state)
	f(read, 421, "Origin: http://evil.example", "Host: evil.example")
	f(write, 421, "Host: evil.example", "Authorization: Bearer other")
	for _, bearer := range []string{state, readOnly} {
		f(read, 200, "Host: central.svc:8081", bearer)
	}
}

// Callers who may read are told what is wrong with the state folder's token.
func TestStateTokenThatCannotBeRead(t *testing.T) {
	h := handler(func(h *admin.Handler) {
		h.Manager = &fakeManager{}
		h.StateToken = func() (string, error) {
			return "", &fs.PathError{Op: "open", Path: "/s/admin-token", Err: fs.ErrPermission}
		}
	})
	url := listen(t, admin.NewServer(h.Handle, slog.New(slog.DiscardHandler)))
	if code, body := call(t, "DELETE", url+"/v1/knowledge/kb1", ""); code != 403 || !strings.Contains(body, "open /s/admin-token: permission denied") {
		t.Errorf("%d, %s", code, body)
	}
}
