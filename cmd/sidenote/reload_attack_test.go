package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/proxy/admin"
	"sidenote/proxy/tenant/tenanttest"
)

// renamed writes a file beside and renames it.
func renamed(t *testing.T, path, text string) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+"~", []byte(text), 0o600), os.Rename(path+"~", path))
	if err != nil {
		t.Fatal(err)
	}
}

// running counts the goroutines that are in one of some functions.
func running(functions ...string) (n int) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, f := range functions {
		n += bytes.Count(stacks, []byte(f+"("))
	}
	return n
}

// Row P3: many reloads, with changing upstreams, JWKS addresses and bases, leak no goroutine and no
// connection.
func TestP3ReloadsLeaveNothing(t *testing.T) {
	s, dir := tenanttest.NewSigner(t), t.TempDir()
	var open atomic.Int64
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/keys") {
			_, _ = w.Write(s.JWKS())
			return
		}
		_, _ = io.WriteString(w, r.URL.Path)
	}))
	up.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	up.Start()
	defer up.Close()
	renamed(t, filepath.Join(dir, "token"), "t0ken")
	renamed(t, filepath.Join(dir, "docs", "a.md"), "# A\n\nText.\n")
	configure := func(n int) {
		t.Helper()
		more := ""
		if n%20 == 10 {
			more = ", more: docs"
		}
		renamed(t, filepath.Join(dir, "sidenote.yaml"), fmt.Sprintf(`
upstream: %s/%d/v1
admin: {token: {file: token}}
knowledge: {docs: docs%s}
identity: {jwt: {corp: {issuer: %s, audience: %s, jwks_url: "%[1]s/keys/%[2]d"}}}
tenants: {acme: {keys: ["%[6]x"], jwt: {corp: {groups: hr}}, knowledge: [docs]}}
`, up.URL, n, more, tenanttest.Issuer, tenanttest.Audience, sha256.Sum256([]byte(acmeKey))))
	}
	configure(0)
	p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"), "--state", filepath.Join(dir, "state"))
	ours := []string{"tenant.(*KeySet).Run", "server.(*indexer).watch", "folder.Watch"}
	reloads, tokens := 200, 50 // a token is sent after that many reloads
	if testing.Short() {
		reloads, tokens = 40, 20
	}
	for n := 1; n <= reloads; n++ {
		configure(n)
		reloaded(t, p, http.StatusOK)
		status, text := posted(t, p.data+"/v1/chat/completions", acmeKey, bonusQuestion)
		if want := fmt.Sprintf("/%d/v1/chat/completions", n); status != http.StatusOK || text != want {
			t.Fatalf("reload %d: %d %s", n, status, text)
		}
		if n%tokens == 0 {
			token := s.Token(tenanttest.Claims(time.Now(), map[string]any{"groups": "hr"}))
			if status, text := posted(t, p.data+"/v1/chat/completions", token, bonusQuestion); status != http.StatusOK {
				t.Errorf("reload %d: %d %s", n, status, text)
			}
		}
	}
	// One issuer, one folder, and the folder of the configuration; the connection of the last
	// request.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); ; <-tick.C {
		left, conns := running(ours...), open.Load()
		if left == 4 && conns <= 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines and %d connections are left", left, conns)
		}
	}
}

// Row P5: a key that is removed from a tenant is refused, also on an open connection.
func TestP5ReloadedKeyOnOpenConnection(t *testing.T) {
	up, dir := newRecorder(t), t.TempDir()
	configure := func(key string) {
		renamed(t, filepath.Join(dir, "sidenote.yaml"), fmt.Sprintf("upstream: %s/v1\nadmin: {token: {file: token}}\ntenants: {acme: {keys: [\"%x\"]}}\n", up.URL, sha256.Sum256([]byte(key))))
	}
	renamed(t, filepath.Join(dir, "token"), "t0ken")
	configure(acmeKey)
	p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"), "--state", ":memory:")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.data, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	br := bufio.NewReader(conn)
	ask := func(key string, want int) {
		t.Helper()
		fmt.Fprintf(conn, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", key)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != want {
			t.Errorf("%d %s, %v; want %d", resp.StatusCode, text, err, want)
		}
	}
	ask(acmeKey, http.StatusOK)
	ask(umbraKey, http.StatusUnauthorized)
	configure(umbraKey)
	reloaded(t, p, http.StatusOK)
	ask(acmeKey, http.StatusUnauthorized)
	ask(umbraKey, http.StatusOK)
}

// Row P3: concurrent reloads run one after another, and the process can be stopped meanwhile.
func TestP3ReloadsAtOnceAndWhileStopping(t *testing.T) {
	up, dir := newRecorder(t), t.TempDir()
	renamed(t, filepath.Join(dir, "token"), "t0ken")
	renamed(t, filepath.Join(dir, "docs", "a.md"), "# A\n\nText.\n")
	config := filepath.Join(dir, "sidenote.yaml")
	texts := []string{}
	for _, bases := range []string{"docs: docs", "docs: docs, more: docs"} {
		texts = append(texts, fmt.Sprintf("upstream: %s/v1\nadmin: {token: {file: token}}\nknowledge: {%s}\n", up.URL, bases))
	}
	renamed(t, config, texts[0])
	p := serve(t, "--config", config, "--state", filepath.Join(dir, "state"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asking sync.WaitGroup
	answered := make(chan int, 1000)
	for range 4 {
		asking.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.admin+admin.ReloadPath, nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer t0ken")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					return // it is stopped
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				select {
				case answered <- resp.StatusCode:
				case <-ctx.Done():
				}
			}
		})
	}
	for n := range 20 {
		renamed(t, config, texts[n%2])
		if status := <-answered; status != http.StatusOK {
			t.Errorf("a reload: %d", status)
		}
	}
	if code := p.stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	cancel()
	asking.Wait()
}
