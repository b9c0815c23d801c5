package main

import (
	"bufio"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/proxy/transport/transporttest"
)

// writeFiles writes files into a new folder, and returns it.
func writeFiles(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// connectProxy is an HTTP proxy that requires a password and records where it connected to.
func connectProxy(t *testing.T, tell func(string)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close() //nolint:errcheck // a test's
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		if req.Header.Get("Proxy-Authorization") != "Basic bWU6Y2FuYXJ5LXByb3h5" {
			_, _ = io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
			return
		}
		to, err := net.Dial("tcp", req.RequestURI)
		if err != nil {
			return
		}
		defer to.Close() //nolint:errcheck // a test's
		tell(req.Method + " " + req.RequestURI)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, conn); _ = to.Close() }()
		_, _ = io.Copy(conn, to)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return l.Addr().String()
}

// A chat, and the probe of the upstream, pass a proxy with a password to an upstream of a private
// authority that requires a client certificate. Without any of these the answer is a 502, and no
// message contains the password. (T28)
func TestReachUpstream(t *testing.T) {
	authority := transporttest.NewAuthority()
	pair := authority.Issue(time.Now().Add(time.Hour))
	u := &recorder{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(u.answer))
	u.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, ClientCAs: authority.Pool, ClientAuth: tls.RequireAndVerifyClientCert} //nolint:gosec // a test's
	u.Config.ErrorLog = log.New(io.Discard, "", 0)
	u.StartTLS()
	t.Cleanup(u.Close)
	connected := make(chan string, 100)
	proxy := connectProxy(t, func(line string) { connected <- line })
	dir := writeFiles(t, map[string][]byte{"ca.pem": authority.PEM, "cert.pem": pair.Cert, "key.pem": pair.Key, "proxy": []byte("http://me:canary-proxy@" + proxy + "\n")})
	for without, c := range map[string]struct {
		status int
		lines  []string
	}{
		"nothing":     {http.StatusOK, []string{"ca: ca.pem", "cert: cert.pem", "key: key.pem", "proxy: {file: proxy}"}},
		"ca":          {http.StatusBadGateway, []string{"cert: cert.pem", "key: key.pem", "proxy: {file: proxy}"}},
		"certificate": {http.StatusBadGateway, []string{"ca: ca.pem", "proxy: {file: proxy}"}},
		"password":    {http.StatusBadGateway, []string{"ca: ca.pem", "cert: cert.pem", "key: key.pem", "proxy: http://" + proxy}},
	} {
		t.Run(without, func(t *testing.T) {
			file := filepath.Join(dir, "c.yaml")
			text := "upstream: {base_url: " + u.URL + "/v1, " + strings.Join(c.lines, ", ") + "}\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p := serve(t, "--config", file, "--state", ":memory:")
			resp, err := http.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.status {
				t.Errorf("got %d %s %v", resp.StatusCode, answer, err)
			}
			_ = resp.Body.Close()
			said := p.out.until(t, "/v1/chat/completions   (")
			if reached := strings.Contains(said, "(reachable)"); reached != (c.status == http.StatusOK) {
				t.Errorf("it said %s", said)
			}
			if strings.Contains(said+string(answer), "canary") {
				t.Errorf("the password is shown: %s %s", said, answer)
			}
		})
	}
	if len(connected) == 0 {
		t.Fatal("the proxy was not used")
	}
	if got, want := <-connected, "CONNECT "+strings.TrimPrefix(u.URL, "https://"); got != want {
		t.Errorf("the proxy saw %q, want %q", got, want)
	}
	if n := u.count(); n != 2 { // the question whether it is there, and the chat
		t.Errorf("%d requests reached the upstream, want 2", n)
	}
}

// P5: if an upstream gets a certificate of another authority, requests reach it again when the file
// of ca is replaced, without a restart. A file that cannot be used changes nothing.
func TestUpstreamRotation(t *testing.T) {
	first, second := transporttest.NewAuthority(), transporttest.NewAuthority()
	var served atomic.Pointer[tls.Certificate]
	serveBy := func(a *transporttest.Authority) {
		pair := a.Issue(time.Now().Add(time.Hour)).TLS()
		served.Store(&pair)
	}
	serveBy(first)
	u := &recorder{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(u.answer))
	u.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { //nolint:gosec // a test's
		return &tls.Config{Certificates: []tls.Certificate{*served.Load()}}, nil //nolint:gosec // a test's
	}}
	u.Config.ErrorLog = log.New(io.Discard, "", 0)
	u.Config.SetKeepAlivesEnabled(false) // a handshake for each request
	u.StartTLS()
	t.Cleanup(u.Close)
	dir := writeFiles(t, map[string][]byte{"ca.pem": first.PEM, "c.yaml": []byte("upstream: {base_url: " + u.URL + "/v1, ca: ca.pem}\n")})
	p := serve(t, "--config", filepath.Join(dir, "c.yaml"), "--state", ":memory:")
	ask := func() int {
		t.Helper()
		resp, err := http.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	until := func(line string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !strings.Contains(p.out.until(t, ""), line); {
			if ask(); time.Now().After(end) {
				t.Fatalf("it does not say %q", line)
			}
		}
	}
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "ca.pem"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if status := ask(); status != http.StatusOK {
		t.Errorf("at first: %d", status)
	}
	write(second.PEM[:40])
	until(`upstream default: certificates cannot be read again, the last ones stay`)
	if status := ask(); status != http.StatusOK {
		t.Errorf("with half a file: %d", status)
	}
	serveBy(second)
	if status := ask(); status != http.StatusBadGateway {
		t.Errorf("of an authority that is not trusted yet: %d", status)
	}
	write(second.PEM)
	// Either the next handshake notices the new files, or a reload does.
	status := ask()
	for end := time.Now().Add(time.Minute); status != http.StatusOK && time.Now().Before(end); status = ask() {
		runtime.Gosched()
	}
	if status != http.StatusOK {
		t.Errorf("with the new file: %d", status)
	}
}
