package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// TestClientFaults holds the rows of deploy/CONTRIBUTING.md with clients that misbehave, in front
// of the whole proxy. Here "settled" means that the request has ended and was reported.
func TestClientFaults(t *testing.T) {
	atBase(t)
	for _, row := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"C1 hangs up before the first byte", leavesEarly},
		{"C2 hangs up mid-stream", leavesStream},
		{"C3 never reads", neverReads},
		{"C4 slowloris", slowloris},
		{"C5 slow body", slowBody},
		{"C6 idle connections", idleConnections},
		{"C7 body beyond the cap", bodyBeyondCap},
		{"C8 large headers", largeHeaders},
		{"C9 JSON bomb", jsonBomb},
		{"C10 depth", deepJSON},
		{"C11 ambiguous keys", ambiguousKeys},
		{"C12 not Unicode", notUnicode},
		{"C13 big integers", bigIntegers},
		{"C14 smuggling", smuggling},
		{"C15 unread body", unreadBody},
		{"C16 pipelined tenants", pipelinedTenants},
		{"C17 a run of one character", oneCharacter},
		{"C18 costly parameters", costlyParameters},
		{"C19 tags of the client", clientsTags},
		{"C20 hangs up while sources are searched", leavesSearch},
	} {
		t.Run(row.name, row.run)
	}
}

// If a client leaves before the answer begins, the upstream's work is cancelled. (TestHangup of
// package transport tests every way of leaving, BenchmarkHangup measures how long it takes.)
func leavesEarly(t *testing.T) {
	for _, leave := range []func(*net.TCPConn) error{
		(*net.TCPConn).Close,
		(*net.TCPConn).CloseWrite, // a half-close counts as leaving, too
		func(c *net.TCPConn) error { c.SetLinger(0); return c.Close() },
	} {
		gone := make(chan struct{})
		u := newUpstream(t, func(_ seen, w io.Writer) {
			io.Copy(io.Discard, w.(io.Reader))
			close(gone)
		})
		g := open(t, u, nil)
		c := g.dial(t)
		fmt.Fprint(c, chatRequest(chatBody))
		u.next(t)
		if err := leave(c); err != nil {
			t.Fatal(err)
		}
		wait(t, gone)
		if rep := g.reports.next(t); rep.Client != report.ClientGoneFirst || rep.Status != 499 {
			t.Errorf("report: %s, %d", rep.Client, rep.Status)
		}
	}
}

// If a client leaves during the search for sources, the search is cancelled and nothing is sent to
// the upstream.
func leavesSearch(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	searching, ended := make(chan struct{}), make(chan error, 1)
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", nil)},
	}, retrieval.Func(func(ctx context.Context, _ retrieval.Query) (retrieval.Result, error) {
		close(searching)
		select {
		case <-ctx.Done():
		case <-time.After(patience):
		}
		ended <- ctx.Err()
		return retrieval.Result{}, ctx.Err()
	}))
	c := g.dial(t)
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(chatBody), chatBody)
	<-searching
	c.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the search ended with %v", err)
	}
	if r := g.reports.next(t); r.Client != report.ClientGoneFirst || r.Status != 499 || len(r.Calls) > 0 {
		t.Errorf("%s, status %d, %d calls to the upstream", r.Client, r.Status, len(r.Calls))
	}
}

// The same applies to a client that leaves anywhere inside a stream.
func leavesStream(t *testing.T) {
	for chunks := range 5 {
		u, events, _, gone := streamer(t)
		g := open(t, u, nil)
		_, r, c := g.stream(t)
		for i := range chunks {
			expect(t, events, r, fmt.Sprintf("data: %d\n\n", i))
		}
		c.Close()
		wait(t, gone)
		if rep := g.reports.next(t); rep.Client != report.ClientGoneStreaming || rep.Truncated {
			t.Errorf("after %d: report: %s, truncated %v", chunks, rep.Client, rep.Truncated)
		}
		if n := gauge(t, g.metrics, "sidenote_streams_open"); n != 0 {
			t.Errorf("%v streams open", n)
		}
	}
}

// A client that never reads its answer is disconnected. Until then Sidenote stops reading from the
// upstream and does not buffer the answer.
func neverReads(t *testing.T) {
	const most = 8 << 20
	var sent atomic.Int64
	gone := make(chan struct{})
	u := newUpstream(t, func(_ seen, w io.Writer) {
		defer close(gone)
		fmt.Fprint(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		piece := fmt.Appendf(nil, "10000\r\n%s\r\n", strings.Repeat("a", 1<<16))
		for {
			if _, err := w.Write(piece); err != nil {
				return
			}
			sent.Add(1 << 16)
		}
	})
	g := openIn(t, u, func(c *proxy.Config) { c.Timeouts.ClientWrite = 200 * time.Millisecond })
	before := allocated()
	c := g.dial(t)
	if err := c.SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, chatRequest(streamBody))
	wait(t, gone)
	if rep := g.reports.next(t); rep.Client != report.ClientGoneStreaming || rep.Truncated {
		t.Errorf("report: %s, truncated %v", rep.Client, rep.Truncated)
	}
	took := allocated() - before
	t.Logf("the upstream could send %d KiB, which cost %d KiB", sent.Load()>>10, took>>10)
	if took > most {
		t.Errorf("%d bytes allocated", took)
	}
}

// trickle sends text byte by byte while the server accepts it, and returns what the server
// answered before it closed the connection.
func (g *rig) trickle(t *testing.T, start, text string) string {
	t.Helper()
	c := g.dial(t)
	fmt.Fprint(c, start)
	answered := make(chan struct{})
	defer func() { <-answered }()
	said := new(strings.Builder)
	go func() {
		defer close(answered)
		io.Copy(said, c) // ends when the server closes or resets the connection
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-answered:
			return said.String()
		case <-tick.C:
			c.Write([]byte{text[i%len(text)]}) // may fail if the server has closed
		}
	}
}

func (g *rig) closesTrickle(t *testing.T, u *stubUpstream, status, start, text string) {
	t.Helper()
	got := g.trickle(t, start, text)
	if !strings.HasPrefix(got, "HTTP/1.1 "+status+" ") || strings.Count(got, "HTTP/1.1 ") != 1 || strings.Contains(got, "secret") {
		t.Errorf("%.40q: got %q", start, got)
	}
	if len(u.seen) > 0 {
		t.Error("something reached the upstream")
	}
}

// A request head that arrives byte by byte must be complete before the deadline.
func slowloris(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := openIn(t, u, func(c *proxy.Config) { c.Timeouts.ClientRead = 100 * time.Millisecond })
	g.closesTrickle(t, u, "408", "", "GET / HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("X-A: secret\r\n", 1000))
	g.closesTrickle(t, u, "408", "GET / HTTP/1.1\r\nAuthorization: Bearer secret\r\n", "X-A: b\r\n")
	g.closesTrickle(t, u, "400", "GET / HTTP/1.1\nHost: x\n", "X-A: b\n") // never a valid line end
}

// The same applies to a body, whether it is short, long or chunked.
func slowBody(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := openIn(t, u, func(c *proxy.Config) { c.Timeouts.ClientRead = 100 * time.Millisecond })
	const post = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n"
	g.closesTrickle(t, u, "408", post+"Content-Length: 4000\r\n\r\n", " ")
	g.closesTrickle(t, u, "408", post+"Content-Length: 400000\r\n\r\n"+strings.Repeat(" ", 10_000), " ")
	g.closesTrickle(t, u, "408", post+"Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n")
}

// Connections without a request take little memory and are closed after a time, and their number
// is limited.
func idleConnections(t *testing.T) {
	const many, most = 500, 64 << 10 // bytes per connection: half of that is the buffer for a head
	u := newUpstream(t, answerJSON("{}"))
	g := openIn(t, u, func(c *proxy.Config) {
		c.Connections, c.Timeouts.ClientIdle, c.Timeouts.ClientRead = many+1, 300*time.Millisecond, 300*time.Millisecond
	})
	before := inUse()
	var conns []*net.TCPConn
	for i := range many {
		c := g.dial(t)
		if i%2 == 0 { // half of them send one request, the others nothing
			g.ask(t, c, "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		conns = append(conns, c)
	}
	each := (int64(inUse()) - int64(before)) / many
	t.Logf("%d bytes a connection", each)
	for _, c := range conns {
		if rest, _ := io.ReadAll(c); len(rest) > 0 && !strings.HasPrefix(string(rest), "HTTP/1.1 408 ") {
			t.Fatalf("an idle connection ended with %q", rest)
		}
		c.Close()
	}
	if each > most {
		t.Errorf("%d bytes a connection", each)
	}
	answered := make(chan struct{})
	busy := newUpstream(t, func(s seen, w io.Writer) {
		<-answered
		answerJSON("{}")(s, w)
	})
	defer close(answered)
	full := openIn(t, busy, func(c *proxy.Config) { c.Connections = 1 })
	first := full.dial(t) // a connection that waits for its answer is not closed to make room
	if _, err := io.WriteString(first, "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	busy.next(t)
	resp, body := full.post(t, chatBody)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" || !strings.Contains(body, `"code":"overloaded"`) {
		t.Errorf("%d, %v, %s", resp.StatusCode, resp.Header, body)
	}
	if reporttest.Count(t, full.metrics, "sidenote_shed_total", "connections") != 1 {
		t.Error("not counted")
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// A body that is too large to be rewritten is relayed unchanged. A strict policy refuses it, and
// the rest of it is not read as a request.
func bodyBeyondCap(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	large := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}]}`, strings.Repeat("x", 5<<20))
	g := open(t, u, func(p *tenant.Policy) { p.MaxRewriteBytes = 1 << 20 })
	resp, _ := g.post(t, large)
	if got := resp.Header.Get(report.HeaderStatus); got != "untouched; reason=body-too-large" || resp.StatusCode != 200 {
		t.Errorf("%d, %s", resp.StatusCode, got)
	}
	if s := u.next(t); s.body != large {
		t.Errorf("%d bytes of %d reached the upstream", len(s.body), len(large))
	}
	g = open(t, u, func(p *tenant.Policy) { p.MaxRewriteBytes, p.Rewrite.RefuseOnFailure = 1<<20, true })
	for _, framing := range []string{"Content-Length: 5000000", "Transfer-Encoding: chunked"} {
		c := g.dial(t)
		go io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"+framing+"\r\n\r\n200000\r\n"+
			strings.Repeat(" ", 2<<20)+"\r\nGET /v1/smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
		all, _ := io.ReadAll(c) // may end with a reset
		if n := strings.Count(string(all), "HTTP/1.1 "); n != 1 || !strings.HasPrefix(string(all), "HTTP/1.1 413 ") {
			t.Errorf("%d answers: %s", n, all)
		}
		if r := g.reports.next(t); r.Outcome != rewrite.Refused {
			t.Errorf("report %s", r.Outcome)
		}
	}
	if len(u.seen) > 0 {
		t.Error("something reached the upstream")
	}
}

// Bearer tokens of 16 KB are relayed; heads above 24 KiB are refused unread.
func largeHeaders(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	g := open(t, u, nil)
	for _, size := range []int{5000, 16 << 10, 22 << 10} {
		token := "Bearer " + strings.Repeat("t", size)
		if resp, _ := g.post(t, chatBody, "Authorization: "+token); resp.StatusCode != 200 {
			t.Errorf("%d bytes: %d", size, resp.StatusCode)
		}
		if s := u.next(t); s.header("Authorization") != token {
			t.Errorf("%d bytes became %d", len(token), len(s.header("Authorization")))
		}
	}
	for _, lines := range []string{"Authorization: Bearer " + strings.Repeat("t", 40<<10), strings.Repeat("X-A: b\r\n", 5000) + "X-B: c"} {
		c := g.dial(t)
		go io.WriteString(c, chatRequest(chatBody, lines))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 431 || !resp.Close {
			t.Errorf("%.30s…: %v, %v", lines, resp, err)
			continue
		}
		if h := resp.Header; len(h.Get(report.HeaderID)) != 26 || h.Get(report.HeaderStatus) != "refused; reason=headers-too-large" {
			t.Errorf("%.30s…: %v", lines, h)
		}
	}
	if len(u.seen) > 0 {
		t.Error("something reached the upstream")
	}
}
