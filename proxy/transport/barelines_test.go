package transport_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// A trickle is a listener whose connections return a few bytes per Read.
type trickle struct {
	net.Listener
	bytes int
}

func (l trickle) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return trickling{c.(halfCloser), l.bytes}, nil
}

type halfCloser interface {
	net.Conn
	CloseWrite() error
}

type trickling struct {
	halfCloser
	bytes int
}

func (c trickling) Read(p []byte) (int, error) { return c.halfCloser.Read(p[:min(len(p), c.bytes)]) }

// trickledTo serves requests that arrive in pieces of that many bytes, with read as the time limit
// for heads.
func trickledTo(t *testing.T, bytes int, read time.Duration) (addr string, handled <-chan string) {
	seen := make(chan string, 100)
	s := transport.NewServer(func(ctx *fasthttp.RequestCtx) {
		body, _, err := transport.ReadBody(ctx, 1<<20, patience, nil)
		if err != nil {
			t.Error(err)
		}
		seen <- fmt.Sprintf("%s %s", ctx.Path(), body)
	}, transport.ServerOptions{ErrorBody: errorBody, Read: read})
	ln := listen(t)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Serve(trickle{ln, bytes}) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-stopped
	})
	return ln.Addr().String(), seen
}

// bareLines are the starts of requests with a bare line feed in their heads.
var bareLines = []string{
	"GET / HTTP/1.1\nHost: h\n\n",
	"POST / HTTP/1.1\nHost: h\nContent-Length: 2\n\n{}",
	"POST / HTTP/1.1\nHost: h\nContent-Length: 4\n\n\r\n\r\n",
	"GET / HTTP/1.0\n\n",
	"GET / HTTP/1.0\r\n\n",
	"GET / HTTP/1.0\n\r\n",
	"GET / HTTP/1.1\nHost: h\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: h\n\r\n",
	"GET / HTTP/1.1\r\nHost: h\r\n\n",
	"GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: h\n\n",
	"GET / HTTP/1.1\r\nHost: h\r\nA: b\nC",
	"GET / HTTP/1.1\nHo",
	"\r\n\nGET / HTTP/1.1\nHost: h\n\n",
	"GET / HTTP/1.1\r\nA: " + strings.Repeat("a", 900) + "\r\nHost: h\nB",
}

// before is a request that precedes one with bare line feeds.
const before = "GET /before HTTP/1.1\r\nHost: h\r\n\r\n"

// answered reads the answer to before.
func answered(t *testing.T, c *client, handled <-chan string) {
	t.Helper()
	if head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		t.Fatalf("%q", head)
	}
	if got := await(t, handled, "first request"); got != "/before " {
		t.Fatal(got)
	}
}

// A head with a bare line feed is refused as soon as that arrives, in any pieces and whatever would
// follow, and the connection is closed.
func TestBareLineFeeds(t *testing.T) {
	for _, pieces := range []int{1, 3, 30, 10_000} {
		addr, handled := trickledTo(t, pieces, time.Hour)
		for _, sent := range bareLines {
			for name, again := range map[string]bool{"": false, "on a connection that was used, ": true} {
				c := dial(t, addr)
				if again {
					c.send(before)
					answered(t, c, handled)
				}
				c.send(sent)
				got, err := io.ReadAll(c.br)
				head, body, _ := strings.Cut(string(got), "\r\n\r\n")
				if err != nil || !strings.HasPrefix(head, "HTTP/1.1 400 ") || !strings.Contains(head, "\r\nConnection: close") || body != `{"error":{"status":400,"code":"invalid_request"}}` {
					t.Errorf("%s%.40q, %d bytes at a time: %q, %v", name, sent, pieces, got, err)
				}
			}
		}
		if len(handled) > 0 {
			t.Errorf("handled %s", <-handled)
		}
	}
}

// A head with a bare line feed that arrives together with the previous request is refused, at the
// latest when its time is over. In the first line a bare line feed is harmless, because that line
// is written anew.
func TestPipelinedBareLineFeeds(t *testing.T) {
	for _, pieces := range []int{3, 10_000} {
		addr, handled := trickledTo(t, pieces, 100*time.Millisecond)
		for _, sent := range bareLines {
			if sent == "GET / HTTP/1.1\nHost: h\r\n\r\n" || sent == "GET / HTTP/1.0\n\r\n" {
				continue
			}
			c := dial(t, addr)
			c.send(before + sent)
			answered(t, c, handled)
			got, err := io.ReadAll(c.br)
			head, _, _ := strings.Cut(string(got), "\r\n\r\n")
			if err != nil || !strings.HasPrefix(head, "HTTP/1.1 400 ") && !strings.HasPrefix(head, "HTTP/1.1 408 ") || !strings.Contains(head, "\r\nConnection: close") {
				t.Errorf("%.40q, %d bytes at a time: %q, %v", sent, pieces, got, err)
			}
		}
		if len(handled) > 0 {
			t.Errorf("handled %s", <-handled)
		}
	}
}

// Bare line feeds outside of head lines are allowed, and heads may come in any pieces.
func TestOtherLineFeedsPass(t *testing.T) {
	body := strings.Repeat("a\nb\n", 30) + "\r\n"
	requests := []string{
		"\n\r\n\nGET /after-empty-lines HTTP/1.1\r\nHost: h\r\n\r\n",
		"POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 122\r\n\r\n" + body,
		"GET /between HTTP/1.1\r\nHost: h\r\n\r\n",
		"PUT /body HTTP/1.1\r\nHost: h\r\nContent-Length: 122\r\n\r\n" + body,
		"POST /chunks HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n\n\n\n\r\n0\r\n\r\n",
		"GET /long HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("a", 2000) + "\r\n\r\n",
		"GET /last HTTP/1.1\r\nHost: h\r\n\r\n",
	}
	want := []string{"/after-empty-lines ", "/body " + body, "/between ", "/body " + body, "/chunks \n\n\n", "/long ", "/last "}
	for pieces := range 150 {
		addr, handled := trickledTo(t, 1+pieces, time.Hour)
		together, each := dial(t, addr), dial(t, addr)
		together.send(strings.Join(requests, ""))
		for i := range requests {
			each.send(requests[i])
			for name, c := range map[string]*client{"together": together, "one by one": each} {
				if head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
					t.Fatalf("%s, %d bytes at a time: %s: %q", name, 1+pieces, want[i], head)
				}
			}
		}
		got := map[string]int{}
		for range 2 * len(requests) {
			got[await(t, handled, "request")]++
		}
		for _, w := range want {
			if got[w] == 0 {
				t.Errorf("%d bytes at a time: %q was not handled", 1+pieces, w)
			}
		}
	}
}
