package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" {
		os.Exit(m.Run()) // benchmarks leave the goroutines of fasthttp's pools running
	}
	goleak.VerifyTestMain(m, staying()...)
}

// staying lists the goroutines that tests may leave: fasthttp's clock never ends, and the one that
// cleans a server's pool sleeps for ten seconds before it notices the server's end.
func staying() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	}
}

// patience is the longest wait in these tests. Only a hang takes that long.
const patience = 2 * time.Minute

// A seen is a request as the upstream received it, byte for byte.
type seen struct {
	line string   // "POST /v1/chat/completions HTTP/1.1"
	head []string // header lines as received
	body string
}

func (s seen) header(name string) string {
	for _, l := range s.head {
		if n, v, _ := strings.Cut(l, ":"); strings.EqualFold(n, name) {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// A stubUpstream is an upstream that records requests and answers each by a function that writes
// raw bytes.
type stubUpstream struct {
	url  *url.URL
	seen chan seen
}

func newUpstream(t *testing.T, answer func(seen, io.Writer)) *stubUpstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &stubUpstream{seen: make(chan seen, 1000)}
	u.url = &url.URL{Scheme: "http", Host: ln.Addr().String(), Path: "/v1"}
	var conns sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	conns.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { c.Close() })
			conns.Go(func() { u.serve(c, answer) })
		}
	})
	t.Cleanup(func() {
		cancel()
		ln.Close()
		conns.Wait()
	})
	return u
}

// next returns the next request that the upstream receives.
func (u *stubUpstream) next(t *testing.T) seen {
	t.Helper()
	select {
	case s := <-u.seen:
		return s
	case <-time.After(patience):
		t.Fatal("nothing reached the upstream")
		return seen{}
	}
}

func (u *stubUpstream) serve(c net.Conn, answer func(seen, io.Writer)) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		s, err := readSeen(r)
		if err != nil {
			return
		}
		u.seen <- s
		answer(s, c)
	}
}

func readSeen(r *bufio.Reader) (s seen, err error) {
	line := func() string {
		var l string
		if err == nil {
			l, err = r.ReadString('\n')
		}
		return strings.TrimSuffix(l, "\r\n")
	}
	s.line = line()
	for l := line(); l != "" && err == nil; l = line() {
		s.head = append(s.head, l)
	}
	if err != nil {
		return s, err
	}
	if strings.EqualFold(s.header("Transfer-Encoding"), "chunked") {
		for {
			size, perr := strconv.ParseInt(line(), 16, 64)
			if perr != nil || err != nil {
				return s, fmt.Errorf("chunk: %v, %v", perr, err)
			}
			b := make([]byte, size)
			_, err = io.ReadFull(r, b)
			s.body += string(b)
			line()
			if size == 0 || err != nil {
				return s, err
			}
		}
	}
	n, _ := strconv.Atoi(s.header("Content-Length"))
	b := make([]byte, n)
	_, err = io.ReadFull(r, b)
	s.body = string(b)
	return s, err
}

// answerJSON answers with a body and a few typical header lines.
func answerJSON(body string) func(seen, io.Writer) {
	return func(_ seen, w io.Writer) {
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: req_1\r\nSidenote-Status: forged\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
}

// testModels counts bytes as tokens, which a reader can check.
type testModels struct{}

func (testModels) Model(string) model.Model {
	return model.Model{Row: "test", Encoding: "bytes", Window: 1 << 20, Counter: byteCounter{}}
}

type byteCounter struct{}

func (byteCounter) Count(s string) (int, bool) { return len(s), true }

// fromBases returns one source for each base, whose text contains tenant and base.
func fromBases(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
	res := retrieval.Result{Bases: q.Bases, Cache: retrieval.CacheMiss}
	for _, b := range q.Bases {
		res.Sources = append(res.Sources, retrieval.Source{
			Type: "rag", Knowledge: b.Knowledge, Doc: b.Knowledge + ".md", Name: "Über " + b.Knowledge,
			Text: "canary of " + q.Tenant + " in " + b.Knowledge, Score: 5,
		})
	}
	return res, nil
}

// nothing returns no sources.
func nothing(context.Context, retrieval.Query) (retrieval.Result, error) {
	return retrieval.Result{Reason: retrieval.ReasonNoMatch}, nil
}

// reports is a Recorder that passes Reports to the test.
type reports chan report.Report

func (c reports) Record(r *report.Report) {
	kept := *r
	kept.Calls = slices.Clone(r.Calls) // their memory is reused
	c <- kept
}

func (c reports) next(t *testing.T) report.Report {
	t.Helper()
	select {
	case r := <-c:
		return r
	case <-time.After(patience):
		t.Fatal("no report")
		return report.Report{}
	}
}

// A lockedBuffer is a log that a test can read while goroutines write to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns what was written since the last call.
func (l *lockedBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.b.Reset()
	return l.b.String()
}

// A rig is a running proxy in front of a stub.
type rig struct {
	server      *proxy.Server
	addr        string
	reports     reports
	metrics     *report.Metrics
	log         *lockedBuffer
	calibration *model.Tracker
}

// policyOf returns a tenant's policy in these tests.
func policyOf(name string, change func(*tenant.Policy)) *tenant.Policy {
	p := &tenant.Policy{Name: "base", Hash: "00000001", Tenant: name, Upstream: "stub", Expose: report.ExposeNames, Rewrite: rewrite.DefaultPolicy()}
	p.Rewrite.Tenant = name
	p.Rewrite.Knowledge = []string{"kb-" + name}
	p.Rewrite.ContextTokens = 4000
	if change != nil {
		change(p)
	}
	return p
}

func keyOf(key string, p *tenant.Policy) tenant.Key {
	return tenant.Key{SHA256: sha256.Sum256([]byte(key)), Policy: p}
}

func start(t *testing.T, cfg proxy.Config, r retrieval.Retriever) *rig {
	t.Helper()
	if r == nil {
		r = retrieval.Func(fromBases)
	}
	return startWith(t, cfg, &rewrite.Rewriter{Retriever: r, Models: testModels{}})
}

func startWith(t *testing.T, cfg proxy.Config, rw *rewrite.Rewriter) *rig {
	t.Helper()
	g := &rig{reports: make(reports, 1000), metrics: reporttest.NewMetrics(), log: &lockedBuffer{}, calibration: model.NewTracker()}
	rw.Calibration = g.calibration
	s, err := proxy.New(cfg, rw, g.metrics, slog.New(slog.NewTextHandler(g.log, nil)), g.reports)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.server, g.addr = s, ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx) // cuts connections that a test left open
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return g
}

// open starts a rig in front of a stub, with one policy for all callers.
func open(t *testing.T, u *stubUpstream, change func(*tenant.Policy)) *rig {
	t.Helper()
	return start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", change)},
	}, nil)
}

// openIn is open with a change to the configuration.
func openIn(t *testing.T, u *stubUpstream, change func(*proxy.Config)) *rig {
	t.Helper()
	cfg := proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", nil)},
		Timeouts:  proxy.DefaultTimeouts(),
	}
	change(&cfg)
	return start(t, cfg, nil)
}

// dial opens a connection that is closed at the end of the test, with a deadline of patience.
func (g *rig) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// chatRequest returns a chat request as the client sends it.
func chatRequest(body string, lines ...string) string {
	head := strings.Join(append(lines, ""), "\r\n")
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

// raw sends bytes on a new connection and reads one response.
func (g *rig) raw(t *testing.T, request string) *http.Response {
	t.Helper()
	c := g.dial(t)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	return resp
}

// post sends a chat request with the given header lines.
func (g *rig) post(t *testing.T, body string, lines ...string) (*http.Response, string) {
	t.Helper()
	resp := g.raw(t, chatRequest(body, lines...))
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}
