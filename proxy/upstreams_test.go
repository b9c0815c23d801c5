package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/report/reporttest"
	"sidenote/proxy/transport"
)

// vacant returns the URL of a port at which nothing listens.
func vacant(t *testing.T) *url.URL {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return &url.URL{Scheme: "http", Host: ln.Addr().String(), Path: "/v1"}
}

// A request goes to the next base URL if none of it could be sent to the first, and the state says so.
func TestNextBaseURL(t *testing.T) {
	atBase(t)
	u := newUpstream(t, answerJSON("{}"))
	first := vacant(t)
	g := openIn(t, u, func(c *proxy.Config) {
		c.Upstreams["stub"] = proxy.Upstream{Name: "stub", BaseURL: first, Others: []proxy.UpstreamBase{{BaseURL: u.url}}}
		c.Upstreams["unused"] = proxy.Upstream{Name: "unused", BaseURL: first}
	})
	if resp, body := g.post(t, chatBody); resp.StatusCode != 200 || resp.Header.Get(report.HeaderStatus) == "" {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	states := g.server.UpstreamStates()
	if len(states) != 1 || !states[0].Known() || !states[0].Up() {
		t.Fatalf("%+v", states)
	}
	lines := states[0].Problems()
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "upstream stub: http://"+first.Host+" cannot be reached since 20") ||
		!strings.Contains(lines[0], ": connect: ") || !strings.HasSuffix(lines[0], "; http://"+u.url.Host+" is used") {
		t.Errorf("%q", lines)
	}
}

// An outage is known without traffic, and ends when a connection succeeds.
func TestOutageWithoutTraffic(t *testing.T) {
	atBase(t)
	u := newUpstream(t, answerJSON("{}"))
	at := vacant(t)
	g := openIn(t, u, func(c *proxy.Config) { c.Upstreams["stub"] = proxy.Upstream{BaseURL: at} })
	if s := g.server.UpstreamStates()[0]; s.Known() || len(s.Problems()) > 0 {
		t.Errorf("before the first connection: %+v", s)
	}
	g.server.CheckUpstreams(t.Context())
	s := g.server.UpstreamStates()[0]
	if !s.Known() || s.Up() || len(s.Problems()) != 1 || !strings.HasSuffix(s.Problems()[0], "; requests fail until it can") {
		t.Errorf("%+v", s)
	}
	ln, err := net.Listen("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	g.server.CheckUpstreams(t.Context())
	if s := g.server.UpstreamStates()[0]; !s.Up() || len(s.Problems()) > 0 {
		t.Errorf("%+v", s)
	}
}

// The answer, the log and the metrics tell a connection that failed from an upstream that hangs, and
// which limit was exceeded. Limits of an upstream take precedence over those of the server.
func TestUpstreamErrorClasses(t *testing.T) {
	atBase(t)
	quit := make(chan struct{})
	defer close(quit)
	hangs := newUpstream(t, func(s seen, w io.Writer) {
		if s.header("X-Begin") != "" {
			fmt.Fprint(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\ndata: {}\n\n")
		}
		select {
		case <-quit:
		case <-time.After(patience):
		}
	})
	resets := newUpstream(t, func(_ seen, w io.Writer) {
		c := w.(interface{ SetLinger(int) error })
		_ = c.SetLinger(0)
		w.(io.Closer).Close()
	})
	const limit = 30 * time.Millisecond
	f := func(to *url.URL, header string, status int, class transport.Class, code, message string, milliseconds string) {
		t.Helper()
		g := openIn(t, hangs, func(c *proxy.Config) {
			c.Timeouts.FirstByte, c.Timeouts.Idle = patience, patience
			c.Upstreams["stub"] = proxy.Upstream{Name: "stub", BaseURL: to, Timeouts: proxy.Timeouts{FirstByte: limit, Idle: limit}}
		})
		resp := g.raw(t, chatRequest(chatBody, header))
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != status || !strings.Contains(string(body), code) || !strings.Contains(string(body), message) {
			t.Errorf("%s: %d, %s", class, resp.StatusCode, body)
		}
		r := g.reports.next(t)
		if c := r.Calls[0]; c.Error != string(class) || milliseconds != "" && c.Limit != limit {
			t.Errorf("%s: reported %q, %v", class, c.Error, c.Limit)
		}
		if n := reporttest.Count(t, g.metrics, "sidenote_upstream_errors_total", string(class)); n != 1 {
			t.Errorf("%s: counted %v times", class, n)
		}
		var line strings.Builder
		(&report.Log{Lines: &line}).Record(&r)
		if !strings.Contains(line.String(), `"upstream_error":"`+string(class)+`"`+milliseconds) {
			t.Errorf("%s: logged %s", class, line.String())
		}
		shutdown(t, g)
	}
	f(vacant(t), "X: 1", 502, transport.ConnectFailed, `"code":"upstream_connect"`, "nothing was sent to it", "")
	f(hangs.url, "X: 1", 504, transport.FirstByteTimeout, `"code":"upstream_timeout"`, "did not answer within 30ms (timeouts.first_byte)", `,"upstream_limit_ms":30,`)
	f(hangs.url, "X-Begin: 1", 200, transport.IdleTimeout, "data: {}", "", `,"upstream_limit_ms":30,`)
	f(resets.url, "X: 1", 502, transport.ClosedEarly, `"code":"upstream_broken"`, "whether it did the work is not known", "")
}

// The time to the first token is that of the first output, not that of the events before it.
func TestTimeToFirstToken(t *testing.T) {
	atBase(t)
	next := make(chan struct{})
	u := newUpstream(t, func(s seen, w io.Writer) {
		const role, token = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"
		fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(role)+len(token), role)
		<-next
		fmt.Fprint(w, token)
	})
	g := open(t, u, nil)
	resp := g.raw(t, chatRequest(`{"model":"m","stream":true,"messages":[{"role":"user","content":"How long?"}]}`, "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	read(t, resp.Body, make([]byte, 10))
	time.AfterFunc(50*time.Millisecond, func() { close(next) })
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	r := g.reports.next(t)
	if c := r.Calls[0]; c.FirstToken < 50*time.Millisecond || c.Took > c.FirstToken {
		t.Errorf("first byte after %v, first token after %v", c.Took, c.FirstToken)
	}
	if r.TraceID.String() != "0af7651916cd43dd8448eb211c80319c" || !r.Sampled {
		t.Errorf("trace %q, %v", r.TraceID, r.Sampled)
	}
	if n := reporttest.Count(t, g.metrics, "sidenote_upstream_first_token_seconds", "other"); n == 0 {
		t.Error("not counted")
	}
}
