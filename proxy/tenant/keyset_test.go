package tenant_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sidenote/proxy/tenant"
	"sidenote/proxy/tenant/tenanttest"
)

// Keys that cannot verify tokens, or with which everybody could sign, are ignored.
func TestParseKeys(t *testing.T) {
	s := tenanttest.NewSigner(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	set := func(keys ...jose.JSONWebKey) []byte {
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		text   []byte
		usable int
		err    string
	}{
		{"good", s.JWKS(), 2, ""},
		{"one kid twice", set(jose.JSONWebKey{Key: s.RSA.Public(), KeyID: "a"}, jose.JSONWebKey{Key: p521.Public(), KeyID: "a"}), 2, ""},
		{"beside others", set(jose.JSONWebKey{Key: s.RSA.Public(), KeyID: "a"}, jose.JSONWebKey{Key: []byte("secret"), KeyID: "b"}, jose.JSONWebKey{Key: s.EC.Public(), KeyID: "c", Use: "enc"}), 1, ""},
		{"of an unknown type", []byte(`{"keys":[{"kty":"new","kid":"a"}]}`), 0, "has no public key with a kid that can verify tokens, among 1"},
		{"without kid", set(jose.JSONWebKey{Key: s.RSA.Public()}), 0, "has no public key"},
		{"secret", set(jose.JSONWebKey{Key: []byte("secret"), KeyID: "a"}), 0, "has no public key"},
		{"private", set(jose.JSONWebKey{Key: s.RSA, KeyID: "a"}), 0, "has no public key"},
		{"weak", set(jose.JSONWebKey{Key: weak.Public(), KeyID: "a"}), 0, "has no public key"},
		{"empty", []byte(`{"keys":[]}`), 0, "has no public key"},
		{"many", []byte(`{"keys":[{}` + strings.Repeat(",{}", 1000) + "]}"), 0, "has 1001 keys; at most 1000"},
		{"no JWKS", []byte("<html>"), 0, "is not a JWKS"},
		{"huge", make([]byte, 1<<20+1), 0, "is larger than 1048576 bytes"},
	} {
		n, err := tenant.ParseKeys(c.text)
		if n != c.usable || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: %d, %v", c.name, n, err)
		}
	}
}

// A source is read at its interval, and sooner for an unknown kid, but at most once a minute.
// While reading fails, the last good keys stay in use, and the failure is reported once.
func TestKeySetRefreshes(t *testing.T) {
	old, next := tenanttest.NewSigner(t), tenanttest.NewSigner(t)
	issuer := old.Trusted()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards the variables below
		var reads []time.Duration
		var told []error
		began, answer, broken := time.Now(), old.JWKS(), error(nil)
		set := tenant.NewKeySet(tenant.KeySource{Every: 15 * time.Minute, Read: func(context.Context) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			reads = append(reads, time.Since(began))
			return answer, broken
		}})
		issuer.Keys = set
		v := tenant.NewVerifier([]tenant.Issuer{issuer}, []tenant.ClaimRule{rule("all", map[string][]string{"iss": {tenanttest.Issuer}})})
		ctx, cancel := context.WithCancel(t.Context())
		want := func(step string, s *tenanttest.Signer, kid string, why tenant.TokenDenial, n int) {
			t.Helper()
			synctest.Wait()
			_, got := verify(v, s.Sign(jose.RS256, s.RSA, kid, tenanttest.Claims(time.Now(), nil)), time.Now())
			mu.Lock()
			defer mu.Unlock()
			if got != why || len(reads) != n {
				t.Errorf("%s: %q after reads at %v", step, got, reads)
			}
		}
		becomes := func(text []byte, err error) {
			mu.Lock()
			defer mu.Unlock()
			answer, broken = text, err
		}
		said := func(step string, n int, last error, trouble string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(told) != n || !errors.Is(told[n-1], last) || !strings.HasSuffix(set.Trouble(), trouble) || (trouble == "") != (set.Trouble() == "") || set.Pending() {
				t.Errorf("%s: told %v, %q", step, told, set.Trouble())
			}
		}
		want("before it runs", old, tenanttest.RSA, tenant.TokenNoKeys, 0)
		if !set.Pending() {
			t.Error("is not pending before it runs")
		}
		done := make(chan struct{})
		go func() {
			set.Run(ctx, func(err error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, err)
			})
			close(done)
		}()
		want("at once", old, tenanttest.RSA, "", 1)
		for range 100 {
			want("an unknown kid", old, "rsa-2", tenant.TokenUnknownKey, 1)
		}
		time.Sleep(59 * time.Second)
		want("59 s later", old, "rsa-2", tenant.TokenUnknownKey, 1)
		time.Sleep(2 * time.Second)
		want("a minute later", old, "rsa-2", tenant.TokenUnknownKey, 2)
		token := old.Token(tenanttest.Claims(time.Now().Add(time.Hour), map[string]any{"iat": nil}))
		if _, why := verify(v, token, time.Now()); why != "" {
			t.Errorf("cached: %q", why)
		}
		time.Sleep(time.Minute)
		want("another minute later", old, tenanttest.RSA, "", 3)

		noRoute := errors.New("no route")
		becomes(answer, noRoute)
		time.Sleep(15 * time.Minute)
		want("while it fails", old, tenanttest.RSA, "", 4)
		said("while it fails", 1, noRoute, ": no route")
		time.Sleep(10 * time.Second)
		want("10 s later", old, tenanttest.RSA, "", 5)
		time.Sleep(20 * time.Second)
		want("20 s later", old, tenanttest.RSA, "", 6)
		becomes([]byte(`{"keys":[]}`), nil)
		time.Sleep(40 * time.Second)
		want("while it lies", old, tenanttest.RSA, "", 7)
		becomes(next.JWKS(), nil)
		time.Sleep(80 * time.Second)
		want("other keys", next, tenanttest.RSA, "", 8)
		said("other keys", 2, nil, "")
		if _, why := verify(v, token, time.Now()); why != tenant.TokenBadSignature {
			t.Errorf("what the keys of before verified counts: %q", why)
		}
		cancel()
		<-done
	})
}

// T13: the answer of an address is used as keys only within limits; a slow, huge, invalid or
// redirecting answer is harmless.
func TestFromURL(t *testing.T) {
	s := tenanttest.NewSigner(t)
	answers := map[string]http.HandlerFunc{
		"/good": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(s.JWKS()) },
		"/huge": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) },
		"/else": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) },
		"/gone": http.NotFound,
		"/cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		},
		"/slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers[r.URL.Path](w, r) }))
	defer srv.Close()
	for path, want := range map[string]string{
		"/good": "", "/huge": "is larger than 1048576 bytes", "/else": "fetch URL: it answers 302", "/gone": "fetch URL: it answers 404",
		"/cut": "fetch URL: unexpected EOF", "/slow": "fetch URL: context canceled",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if path == "/slow" {
			cancel()
		}
		set := tenant.NewKeySet(tenant.KeysFromURL(srv.URL + path))
		err := set.Read(ctx)
		if got := fmt.Sprint(err); (want != "" || err != nil) && got != strings.ReplaceAll(want, "URL", srv.URL+path) {
			t.Errorf("%s: %s", path, got)
		}
		cancel()
	}
	srv.Close()
	if err := tenant.NewKeySet(tenant.KeysFromURL(srv.URL)).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("nobody there: %v", err)
	}
}

// endless is an endless JSON text.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// A source that does not answer times out after 5 s.
func TestSlowSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := tenant.NewKeySet(tenant.KeySource{Every: time.Hour, Read: func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}).Read(t.Context())
		if took := time.Since(began); err == nil || took != 5*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// A replaced file is read again, and an incomplete one is not used.
func TestFromFile(t *testing.T) {
	s, path := tenanttest.NewSigner(t), filepath.Join(t.TempDir(), "keys.json")
	set := tenant.NewKeySet(tenant.KeysFromFile(path))
	read := func(text []byte, want string) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		err := set.Read(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := set.Read(t.Context()); err == nil || !strings.HasPrefix(set.Trouble(), "no keys, so every token is refused: ") {
		t.Errorf("no file: %v, %q", err, set.Trouble())
	}
	read(s.JWKS(), "")
	read(s.JWKS()[:100], "is not a JWKS")
	if trouble := set.Trouble(); !strings.HasPrefix(trouble, "reading its keys failed; the keys of 2") {
		t.Errorf("%q", trouble)
	}
}
