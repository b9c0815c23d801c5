package opensearch_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/opensearch"
)

// A gate is a proxy with TLS in front of the shared server. It asks for a certificate of its own, and for
// an Authorization.
type gate struct {
	url   *url.URL
	trust *x509.CertPool
	cert  tls.Certificate

	mu            sync.Mutex
	authorization map[string]bool            // those that are let through
	refuse        func(r *http.Request) bool // answers 403; nil for none
	requests      atomic.Int32
	busy          atomic.Int32 // requests to _bulk that are still to be answered by 429
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{trust: x509.NewCertPool(), authorization: map[string]bool{basic("writer", "first"): true}}
	proxy := httputil.NewSingleHostReverseProxy(address(t))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(proxy, w, r) }))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
		if !bytes.Equal(raw[0], server.Certificate().Raw) {
			return errors.New("another certificate")
		}
		return nil
	}}
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ErrorLog = proxy.ErrorLog
	server.StartTLS()
	t.Cleanup(server.Close)
	g.trust.AddCert(server.Certificate())
	g.cert = server.TLS.Certificates[0]
	var err error
	g.url, err = url.Parse(server.URL)
	must(t, err)
	return g
}

func (g *gate) serve(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	g.requests.Add(1)
	g.mu.Lock()
	known, refused := g.authorization[r.Header.Get("Authorization")], g.refuse != nil && g.refuse(r)
	g.mu.Unlock()
	switch {
	case !known:
		w.WriteHeader(http.StatusUnauthorized)
	case refused:
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error":{"type":"security_exception","reason":"no permissions"}}`))
	case strings.HasSuffix(r.URL.Path, "/_bulk") && g.busy.Add(-1) >= 0:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		proxy.ServeHTTP(w, r)
	}
}

func (g *gate) set(refuse func(r *http.Request) bool, authorization ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse, g.authorization = refuse, map[string]bool{}
	for _, a := range authorization {
		g.authorization[a] = true
	}
}

func basic(user, password string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

// connection returns one that is let through.
func (g *gate) connection(t *testing.T) engine.Connection {
	return engine.Connection{
		URL: []*url.URL{g.url}, Namespace: namespace(t), User: "writer", Password: func() string { return "first" },
		TLS: &tls.Config{RootCAs: g.trust, Certificates: []tls.Certificate{g.cert}},
	}
}

func TestPasswordIsReplacedWhileServing(t *testing.T) {
	g := newGate(t)
	c, password := g.connection(t), atomic.Pointer[string]{}
	store := func(text string) { password.Store(&text) }
	store("first")
	c.Password = func() string { return *password.Load() }
	s := openAs(t, c)
	states := func() error { _, err := s.States(t.Context(), []string{"b"}); return err }
	must(t, states())
	g.set(nil, basic("writer", "second"))
	before := g.requests.Load()
	if err := states(); !errors.Is(err, engine.ErrLogin) || strings.Contains(err.Error(), "first") {
		t.Errorf("replaced password: %v", err)
	}
	if n := g.requests.Load() - before; n != 1 {
		t.Errorf("%d requests with a wrong password, want 1", n)
	}
	store("second")
	must(t, states())

	c.Password, c.APIKey = nil, func() string { return "key" }
	g.set(nil, "ApiKey key")
	s = openAs(t, c)
	must(t, states())
}

func TestCertificatesAreChecked(t *testing.T) {
	g := newGate(t)
	for want, c := range map[string]*tls.Config{
		"unknown authority": {Certificates: []tls.Certificate{g.cert}},
		"certificate":       {RootCAs: g.trust},
	} {
		conn := g.connection(t)
		conn.TLS = c
		if _, err := openAs(t, conn).States(t.Context(), []string{"b"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if n := g.requests.Load(); n != 0 {
		t.Errorf("%d requests were let through", n)
	}
}

// reading matches the requests that a sidecar's role has to allow.
var reading = regexp.MustCompile(`^(GET /|POST /_mget|POST /_msearch|POST /[^/]+/_search|GET /[^/]+/_doc/.+|GET /[^/]+/_mapping/field/\*)$`)

func onlyReading(r *http.Request) bool { return !reading.MatchString(r.Method + " " + r.URL.Path) }

func TestRoleThatOnlyReadsIsEnough(t *testing.T) {
	g, ctx := newGate(t), t.Context()
	c := g.connection(t)
	l := write(t, openAs(t, c), "b")
	must(t, l.Put(ctx, contentBefore, nil))
	must(t, l.Commit(ctx, "aa", "m/4"))
	must(t, l.SetMeasures(ctx, "v1", []byte("measured")))
	index := others(t)
	s, err := opensearch.Open(opensearch.Options{Connection: c, Mappings: map[string]engine.Mapping{"others": mappingOf(index)}})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	g.set(onlyReading, basic("writer", "first"))

	checkContent(t, s, 0, contentBefore)
	calls := map[string]func() error{
		"states":         func() error { _, err := s.States(ctx, []string{"b", "others"}); return err },
		"passage":        func() error { _, err := s.Passage(ctx, "b", "same", 0, 9, nil, ""); return err },
		"sample":         func() error { _, err := s.Sample(ctx, "b", 5); return err },
		"vocabulary":     func() error { _, err := s.Vocabulary(ctx, "b", 5); return err },
		"measures":       func() error { _, err := s.Measures(ctx, "b"); return err },
		"check":          func() error { return s.Check(ctx, "b") },
		"check others":   func() error { return s.Check(ctx, "others") },
		"sample others":  func() error { _, err := s.Sample(ctx, "others", 5); return err },
		"passage others": func() error { _, err := s.Passage(ctx, "others", "row 0", 0, 1, nil, ""); return err },
		"search others": func() error {
			_, err := s.Search(ctx, &engine.Search{Bases: []string{"others"}, Question: "leave", Vector: unit(1, 4), Depth: 5})
			return err
		},
	}
	for name, call := range calls {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Init(ctx, "new"); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("init: %v", err)
	}
	if _, err := s.Acquire(ctx, "b", "test", time.Minute); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("acquire: %v", err)
	}
}

// TestPermissionsAreRevokedWhileWriting takes a role's right to write away, and gives it back.
func TestPermissionsAreRevokedWhileWriting(t *testing.T) {
	g, ctx := newGate(t), t.Context()
	s := openAs(t, g.connection(t))
	l := write(t, s, "b")
	must(t, l.Put(ctx, contentBefore, nil))
	must(t, l.Commit(ctx, "aa", "m/4"))
	bulks := int32(0)
	g.set(func(r *http.Request) bool { // from the second of a Put on
		if strings.HasSuffix(r.URL.Path, "/_bulk") {
			bulks++
		}
		return bulks > 1 && onlyReading(r)
	}, basic("writer", "first"))
	if err := l.Put(ctx, contentAfter[1:], []string{"gone"}); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("put: %v", err)
	}
	checkContent(t, s, 0, contentBefore)
	if err := l.Commit(ctx, "bb", "m/4"); !errors.Is(err, engine.ErrDenied) {
		t.Errorf("commit: %v", err)
	}
	g.set(nil, basic("writer", "first"))
	must(t, l.Put(ctx, contentAfter[1:], []string{"gone"}))
	must(t, l.Commit(ctx, "bb", "m/4"))
	checkContent(t, s, 0, contentAfter)
}

func TestBusyServerIsAskedAgainWhenItSays(t *testing.T) {
	g, ctx := newGate(t), t.Context()
	s := openAs(t, g.connection(t))
	l := write(t, s, "b")
	g.busy.Store(2)
	began := time.Now()
	must(t, l.Put(ctx, contentBefore, nil))
	if waited := time.Since(began); waited < 2*time.Second {
		t.Errorf("asked again after %v, want 1 s twice", waited)
	}
	must(t, l.Commit(ctx, "aa", "m/4"))
	checkContent(t, s, 0, contentBefore)

	g.busy.Store(1)
	hurried, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := l.Put(hurried, contentAfter[1:], nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("put: %v", err)
	}
	must(t, l.Put(ctx, contentAfter[1:], []string{"gone"}))
	must(t, l.Commit(ctx, "bb", "m/4"))
	checkContent(t, s, 0, contentAfter)
}

// TestMissingIndexIsNotCreatedByAWrite deletes an index of a base behind its writer and its reader.
func TestMissingIndexIsNotCreatedByAWrite(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	must(t, l.Put(ctx, contentBefore, nil))
	must(t, l.Commit(ctx, "aa", "m/4"))
	index := "/" + s.Connection().Namespace + ".b.chunks"
	request(t, "DELETE", index+"-1", "")
	if err := l.Put(ctx, contentAfter[1:], nil); err == nil {
		t.Error("put into an index that does not exist")
	}
	if _, err := s.Search(ctx, &engine.Search{Bases: []string{"b"}, Terms: terms("red"), Depth: 5}); !errors.Is(err, engine.ErrNoBase) {
		t.Errorf("search: %v", err)
	}
	resp, err := http.Head(address(t).String() + index)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("the index exists again: %d", resp.StatusCode)
	}
}
