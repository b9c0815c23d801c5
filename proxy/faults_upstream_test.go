package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// TestUpstreamFaults holds the rows of deploy/CONTRIBUTING.md with upstreams that fail, behind the
// whole proxy. Here "settled" means that the request has ended.
func TestUpstreamFaults(t *testing.T) {
	atBase(t)
	for _, row := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"U1 refused", upstreamRefused},
		{"U2 never answers", upstreamNeverAnswers},
		{"U3 errors", upstreamErrors},
		{"U4 keep-alive race", keepAliveRace},
		{"U5 dies mid-stream", diesMidStream},
		{"U6 no DONE", noDone},
		{"U7 stalls mid-stream", stallsMidStream},
		{"U8 drips", drips},
		{"U9 split events", splitEvents},
		{"U10 giant line", giantLine},
		{"U11 error inside a stream", errorInsideStream},
		{"U12 compressed bomb", compressedBomb},
		{"U13 redirect", redirect},
		{"U14 usage lies", usageLies},
		{"U15 wrong framing", wrongFraming},
		{"U16 old and odd HTTP", oddHTTP},
		{"U17 flapping", flapping},
		{"U18 TLS", badTLS},
	} {
		t.Run(row.name, row.run)
	}
}

// failed requires an error of Sidenote's own, and that the request has ended.
func (g *rig) failed(t *testing.T, status int, reason string) {
	t.Helper()
	resp, body := g.post(t, chatBody)
	if resp.StatusCode != status || !strings.Contains(body, `"error":{`) || resp.Header.Get("Content-Type") != "application/json" ||
		resp.Header.Get("Retry-After") == "" || resp.Header.Get(report.HeaderStatus) != "failed; reason="+reason {
		t.Errorf("%d, %v, %s; want %d for %s", resp.StatusCode, resp.Header, body, status, reason)
	}
	if r := g.reports.next(t); r.Outcome != report.Failed || r.Status != status {
		t.Errorf("report %s, %d", r.Outcome, r.Status)
	}
	if n := gauge(t, g.metrics, "sidenote_requests_in_flight"); n != 0 {
		t.Errorf("%v requests in flight", n)
	}
}

func upstreamRefused(t *testing.T) {
	for _, host := range []string{"127.0.0.1:1", "host.invalid:80"} { // nothing listens there
		u := newUpstream(t, nil)
		u.url.Host = host
		open(t, u, nil).failed(t, 502, "upstream-connect")
	}
}

func upstreamNeverAnswers(t *testing.T) {
	gone := make(chan struct{})
	u := newUpstream(t, func(_ seen, w io.Writer) {
		io.Copy(io.Discard, w.(io.Reader))
		close(gone)
	})
	openIn(t, u, func(c *proxy.Config) { c.Timeouts.FirstByte = 50 * time.Millisecond }).failed(t, 504, "upstream-timeout")
	wait(t, gone)
}

// Errors of the upstream are relayed unchanged, and no request is sent twice.
func upstreamErrors(t *testing.T) {
	for _, status := range []string{"429 Slow Down", "500 Oh", "502 Bad Gateway", "503 Busy", "504 Late", "529 Site Overloaded"} {
		u := newUpstream(t, func(_ seen, w io.Writer) {
			fmt.Fprintf(w, "HTTP/1.1 %s\r\nRetry-After: 7\r\nConnection: x-hop\r\nX-Hop: 1\r\nContent-Length: 3\r\n\r\nno!", status)
		})
		resp, body := open(t, u, nil).post(t, chatBody)
		if resp.Status != status || body != "no!" || resp.Header.Get("Retry-After") != "7" || resp.Header.Get("X-Hop") != "" ||
			resp.Header.Get(report.HeaderID) == "" || resp.Header.Get(report.HeaderStatus) != "" {
			t.Errorf("%s, %v, %s", resp.Status, resp.Header, body)
		}
		if n := len(u.seen); n != 1 {
			t.Errorf("%s: sent %d times", status, n)
		}
	}
}

// If the upstream closes an idle connection, no request fails. If it closes one during a request,
// that request fails, as it may have been executed.
func keepAliveRace(t *testing.T) {
	closed := make(chan struct{}, 1)
	u := newUpstream(t, func(s seen, w io.Writer) {
		if s.header("X-Die") == "" {
			answerJSON("{}")(s, w)
		}
		w.(io.Closer).Close()
		closed <- struct{}{}
	})
	g := open(t, u, nil)
	for i := range 20 {
		if resp, _ := g.post(t, chatBody); resp.StatusCode != 200 || len(u.seen) != i+1 {
			t.Fatalf("request %d: %d, sent %d times in all", i, resp.StatusCode, len(u.seen))
		}
		wait(t, closed)
	}
	if resp, body := g.post(t, chatBody, "X-Die: 1"); resp.StatusCode != 502 || resp.Header.Get(report.HeaderStatus) != "failed; reason=upstream-broken" {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	if n := len(u.seen); n != 21 {
		t.Errorf("21 requests were sent %d times", n)
	}
}

// If the upstream cuts a stream, the client notices, wherever the cut is.
func diesMidStream(t *testing.T) {
	for chunks := range 4 {
		u, events, cut, _ := streamer(t)
		g := open(t, u, nil)
		_, r, _ := g.stream(t)
		for i := range chunks {
			expect(t, events, r, fmt.Sprintf("data: %d\n\n", i))
		}
		close(cut)
		if rest, err := io.ReadAll(r); err == nil || len(rest) > 0 {
			t.Errorf("the cut looks like an end, with %q", rest)
		}
		if rep := g.reports.next(t); !rep.Truncated || rep.Outcome != rewrite.Injected {
			t.Errorf("report: truncated %v, %s", rep.Truncated, rep.Outcome)
		}
		if reporttest.Count(t, g.metrics, "sidenote_upstream_truncated_total", "streaming") != 1 {
			t.Error("not counted")
		}
	}
}

// A stream ends as its framing says, with or without the event [DONE].
func noDone(t *testing.T) {
	u, events, _, _ := streamer(t)
	g := open(t, u, nil)
	_, r, _ := g.stream(t)
	expect(t, events, r, "data: {\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9}}\n\n")
	close(events)
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("after the last event: %q, %v", rest, err)
	}
	if rep := g.reports.next(t); rep.Truncated || rep.Client != report.ClientCompleted {
		t.Errorf("report: truncated %v, %s", rep.Truncated, rep.Client)
	}
}

func stallsMidStream(t *testing.T) {
	u, events, _, gone := streamer(t)
	g := openIn(t, u, func(c *proxy.Config) { c.Concurrency, c.Timeouts.Idle = 1, 100*time.Millisecond })
	_, r, _ := g.stream(t)
	events <- "data: 1\n\n"
	if rest, err := io.ReadAll(r); err == nil {
		t.Errorf("the stall looks like an end after %q", rest)
	}
	wait(t, gone)
	if rep := g.reports.next(t); !rep.Truncated {
		t.Errorf("report %+v", rep)
	}
	if n := gauge(t, g.metrics, "sidenote_streams_open"); n != 0 {
		t.Errorf("%v streams open", n)
	}
}

// A slow stream may take any time in total, but the time between two pieces (U7) and the number of
// streams are limited. Meanwhile other requests are served. The stream ends when its client
// leaves.
func drips(t *testing.T) {
	next, gone := make(chan string), make(chan struct{})
	u := newUpstream(t, func(s seen, w io.Writer) {
		if s.header("X-Drip") == "" {
			answerJSON("{}")(s, w)
			return
		}
		fmt.Fprint(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		for b := range next {
			fmt.Fprintf(w, "1\r\n%s\r\n", b)
		}
		io.Copy(io.Discard, w.(io.Reader))
		close(gone)
	})
	g := openIn(t, u, func(c *proxy.Config) { c.Concurrency = 2 })
	c := g.dial(t)
	fmt.Fprint(c, chatRequest(streamBody, "X-Drip: 1"))
	slow, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []byte("data: slow") {
		next <- string(want)
		if b := make([]byte, 1); read(t, slow.Body, b) != string(want) {
			t.Fatalf("%q came as %q", want, b)
		}
		if resp, _ := g.post(t, chatBody, "Connection: close"); resp.StatusCode != 200 {
			t.Errorf("beside the drip: %d", resp.StatusCode)
		}
		g.reports.next(t) // the stream has ended and made room for the next one
	}
	close(next)
	c.Close()
	wait(t, gone)
}

// Events are relayed byte for byte wherever the upstream splits them: inside a rune, inside
// "data:", between CR and LF, in the middle of a comment.
func splitEvents(t *testing.T) {
	const golden = ": ping\n\nevent: a\ndata: {\"delta\":\"größe 😀\"}\r\n\r\ndata: b\ndata: c\n\nid: 7\rdata: [DONE]\r\n\r\n"
	for at := 1; at < len(golden); at++ {
		u, events, _, _ := streamer(t)
		g := open(t, u, nil)
		_, r, c := g.stream(t)
		expect(t, events, r, golden[:at])
		expect(t, events, r, golden[at:])
		close(events)
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Errorf("after the end: %q, %v", rest, err)
		}
		c.Close()
	}
}

// Sidenote follows no redirects: that is up to the client, with or without its key.
func redirect(t *testing.T) {
	attacker := newUpstream(t, answerJSON("{}"))
	for _, status := range []string{"301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"} {
		location := "http://" + attacker.url.Host + "/steal"
		u := newUpstream(t, func(_ seen, w io.Writer) {
			fmt.Fprintf(w, "HTTP/1.1 %s\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, location)
		})
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url, APIKey: proxy.NewSecret("sk-ours")}},
			Tenants:   tenant.Tenants{Unknown: policyOf("acme", nil)},
		}, nil)
		if resp, body := g.post(t, chatBody); resp.Status != status || resp.Header.Get("Location") != location || body != "" {
			t.Errorf("%s, %v, %q", resp.Status, resp.Header, body)
		}
		if n := len(u.seen); n != 1 {
			t.Errorf("%s: sent %d times", status, n)
		}
	}
	if len(attacker.seen) > 0 {
		t.Error("followed")
	}
}

// An upstream that fails every other time gets exactly one request for each of a client's, and
// another tenant's upstream is not affected. (There is no circuit breaker: Sidenote never refuses
// a request because earlier ones failed.)
func flapping(t *testing.T) {
	var sent atomic.Int64
	bad := newUpstream(t, func(s seen, w io.Writer) {
		switch sent.Add(1) % 4 {
		case 0:
			fmt.Fprint(w, "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n")
		case 1:
			w.(io.Closer).Close()
		default:
			answerJSON("{}")(s, w)
		}
	})
	good := newUpstream(t, answerJSON("{}"))
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: bad.url}, "good": {BaseURL: good.url}},
		Tenants: tenant.Tenants{Keys: []tenant.Key{
			keyOf("ka", policyOf("acme", nil)), keyOf("kb", policyOf("beta", func(p *tenant.Policy) { p.Upstream = "good" })),
		}},
	}, nil)
	c := g.dial(t)
	got := map[int]int{}
	const requests = 1000
	for range requests {
		got[g.ask(t, c, chatRequest(chatBody, "Authorization: Bearer ka"))]++
		g.reports.next(t)
		bad.next(t)
		if status := g.ask(t, c, chatRequest(chatBody, "Authorization: Bearer kb")); status != 200 {
			t.Errorf("the other tenant got %d", status)
		}
		g.reports.next(t)
		good.next(t)
	}
	if n := sent.Load(); n != requests || len(bad.seen) > 0 || got[200] != requests/2 || got[502] != requests/4 || got[503] != requests/4 {
		t.Errorf("%d requests were sent %d times; answers %v", requests, n, got)
	}
}

// If the certificate is invalid, nothing is sent. (Package transport tests expired ones: here only
// the system's authorities are trusted.)
func badTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") }))
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	defer server.Close()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go func() { // does not speak TLS
		for c, err := plain.Accept(); err == nil; c, err = plain.Accept() {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for _, host := range []string{"127.0.0.1:" + port, "localhost:" + port, plain.Addr().String()} {
		g := open(t, &stubUpstream{url: &url.URL{Scheme: "https", Host: host}}, nil)
		g.failed(t, 502, "upstream-connect")
		if said := g.log.take(); !strings.Contains(said, "upstream tls:") {
			t.Errorf("%s: the log does not name the cause: %s", host, said)
		}
	}
}
