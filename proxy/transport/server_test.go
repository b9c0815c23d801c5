package transport_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// Each of these could hide a second request in the first, or be read differently by the next
// server: it gets one answer, and the connection is closed. (Row C14 in package proxy has wrong
// lengths, encodings and line ends.)
func TestSmuggling(t *testing.T) {
	const hidden = "GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n"
	targets := make(chan string, 100)
	refuse := func(ctx *fasthttp.RequestCtx) { // as for a bad key: before the body is read
		targets <- string(ctx.Path())
		ctx.SetStatusCode(fasthttp.StatusUnauthorized)
	}
	read := func(ctx *fasthttp.RequestCtx) {
		targets <- string(ctx.Path())
		if _, _, err := transport.ReadBody(ctx, 1<<20, patience, nil); err != nil {
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
		}
	}
	for name, c := range map[string]struct {
		handler fasthttp.RequestHandler
		sent    string
		status  string
	}{
		"identity":             {read, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n", "400"},
		"NUL":                  {read, "POST / HTTP/1.1\r\nHost: h\r\nA: \x00\r\n\r\n", "400"},
		"two hosts":            {read, "POST / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", "400"},
		"version 2":            {read, "POST / HTTP/2.0\r\nHost: h\r\n\r\n", "505"},
		"1.0 with chunks":      {read, "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
		"unread long body":     {refuse, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat("x", 9000-len(hidden)), "401"},
		"unread chunked body":  {refuse, "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n21\r\n", "401"},
		"unread, more to come": {refuse, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n" + strings.Repeat("x", 9000), "401"},
		"asked to close":       {refuse, "GET /a HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n", "401"},
	} {
		t.Run(name, func(t *testing.T) {
			client := dial(t, serve(t, c.handler, transport.ServerOptions{}))
			client.send(c.sent + hidden)
			_ = client.CloseWrite()
			got := client.rest()
			if n := strings.Count(got, "HTTP/1.1 "); n != 1 || !strings.HasPrefix(got, "HTTP/1.1 "+c.status+" ") {
				t.Errorf("%d answers: %q", n, got)
			}
			if !strings.Contains(got, "\r\nConnection: close\r\n") {
				t.Errorf("does not say that it closes: %q", got)
			}
			for len(targets) > 0 {
				if target := <-targets; target == "/hidden" {
					t.Error("the hidden request was handled")
				}
			}
		})
	}
}

// If fasthttp has read the whole body before it calls the handler, the connection stays open.
func TestSmallUnreadBodyKeepsConnection(t *testing.T) {
	c := dial(t, serve(t, func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(401) }, transport.ServerOptions{}))
	for range 3 {
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8192\r\n\r\n" + strings.Repeat("x", 8192))
		if head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 401 ") || strings.Contains(head, "close") {
			t.Fatalf("got %q", head)
		}
	}
}

// Heads that do not reach the handler get errors in our format, without any text of the head.
func TestServerErrors(t *testing.T) {
	handler := func(ctx *fasthttp.RequestCtx) { t.Errorf("handler called: %s", ctx.Request.Header.RawHeaders()) }
	addr := serve(t, handler, transport.ServerOptions{Read: 50 * time.Millisecond})
	for sent, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nbroken\r\n\r\n":                             `{"error":{"status":400,"code":"invalid_request"}}`,
		"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: secret" + strings.Repeat("s", 60<<10) + "\r\n\r\n":           `{"error":{"status":431,"code":"headers_too_large"}}`,
		"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\n":                                           `{"error":{"status":408,"code":"request_timeout"}}`,
		"POST / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nContent-Length: 100\r\n\r\n{\"messages\":": `{"error":{"status":408,"code":"request_timeout"}}`,
	} {
		c := dial(t, addr)
		c.send(sent)
		got := c.rest()
		if _, body, _ := strings.Cut(got, "\r\n\r\n"); body != want || strings.Contains(got, "secret") {
			t.Errorf("%.70q: got %q", sent, got)
		}
		if !strings.Contains(got, "\r\nContent-Type: application/json\r\n") || strings.Contains(got, "Date:") {
			t.Errorf("%.70q: head of %q", sent, got)
		}
	}
	// A head of 22 KiB is accepted.
	c := dial(t, serve(t, func(*fasthttp.RequestCtx) {}, transport.ServerOptions{}))
	c.send("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: " + strings.Repeat("t", 22<<10) + "\r\n\r\n")
	if head, _ := c.message(); head != "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" {
		t.Errorf("got %q", head)
	}
}

func TestReadBody(t *testing.T) {
	type result struct {
		body  string
		whole bool
		class transport.Class
	}
	results := make(chan result, 1)
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		body, whole, err := transport.ReadBody(ctx, 10_000, 100*time.Millisecond, nil)
		results <- result{string(body), whole, transport.ClassOf(err)}
	}, transport.ServerOptions{})
	const post = "POST / HTTP/1.1\r\nHost: h\r\n"
	full := strings.Repeat("x", 10_000)
	for name, c := range map[string]struct {
		sent string
		want result
		fin  bool
	}{
		"none":            {post + "\r\n", result{"", true, ""}, false},
		"small":           {post + "Content-Length: 3\r\n\r\nabc", result{"abc", true, ""}, false},
		"the limit":       {post + "Content-Length: 10000\r\n\r\n" + full, result{full, true, ""}, false},
		"longer":          {post + "Content-Length: 10001\r\n\r\n" + full + "x", result{"", false, ""}, false},
		"chunks":          {post + "Transfer-Encoding: chunked\r\n\r\n2710\r\n" + full + "\r\n0\r\n\r\n", result{full, true, ""}, false},
		"too many chunks": {post + "Transfer-Encoding: chunked\r\n\r\n2710\r\n" + full + "\r\n2\r\nyz\r\n", result{full + "y", false, ""}, false},
		"cut":             {post + "Content-Length: 9000\r\n\r\n" + full[:8999], result{"", false, transport.ClientGone}, true},
		"cut chunks":      {post + "Transfer-Encoding: chunked\r\n\r\n2710\r\nabc", result{"", false, transport.ClientGone}, true},
		"slow":            {post + "Content-Length: 9000\r\n\r\n" + full[:8999], result{"", false, transport.ClientLate}, false},
		"nonsense":        {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", result{"", false, transport.ClientBody}, false},
	} {
		client := dial(t, addr)
		client.send(c.sent)
		if c.fin {
			_ = client.CloseWrite()
		}
		if got := await(t, results, name); got != c.want {
			t.Errorf("%s: got %.40q… %v %s", name, got.body, got.whole, got.class)
		}
		client.Close()
	}
}

// A body that is too large to be rewritten is relayed unchanged, in its own framing.
func TestReadBodyThenRelay(t *testing.T) {
	o, seen := recording(t)
	u := newUpstream(t, o.config(""))
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		body, whole, err := transport.ReadBody(ctx, 1000, patience, nil)
		if err != nil || whole {
			t.Errorf("whole %v, %v", whole, err)
		}
		answer, err := do(ctx, u, transport.Call{Body: [][]byte{body}})
		if err != nil {
			t.Error(err)
			return
		}
		answer.Relay(ctx, transport.Relay{})
	}, transport.ServerOptions{})
	text := strings.Repeat("0123456789", 2000)
	c := dial(t, addr)
	for range 2 { // the connection stays in step
		for _, framing := range []string{
			"Content-Length: 20000\r\n\r\n" + text,
			"Content-Length: 1010\r\n\r\n" + text[:1010],
			"Transfer-Encoding: chunked\r\n\r\n400\r\n" + text[:1024] + "\r\n4a20\r\n" + text[1024:] + "\r\n0\r\n\r\n",
		} {
			c.send("POST / HTTP/1.1\r\nHost: h\r\n" + framing)
			got := await(t, seen, "request")
			head, body, _ := strings.Cut(got, "\r\n\r\n")
			if body != text[:len(body)] || len(body) < 1010 {
				t.Errorf("%d bytes arrived", len(body))
			}
			if want, _, _ := strings.Cut(framing, "\r\n"); !strings.HasSuffix(head, want) {
				t.Errorf("%q became %q", want, head)
			}
			c.message()
		}
	}
}

func TestContinue(t *testing.T) {
	const interim = "HTTP/1.1 100 Continue\r\n\r\n"
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		body, _, err := transport.ReadBody(ctx, 100, patience, nil)
		if err != nil {
			t.Error(err)
		}
		ctx.SetBody(body)
	}, transport.ServerOptions{})
	for _, expect := range []string{"expect: 100-continue", "Expect: 100-Continue", "EXPECT:100-CONTINUE "} {
		c := dial(t, addr)
		c.send("POST / HTTP/1.1\r\nHost: h\r\n" + expect + "\r\nContent-Length: 3\r\n\r\n")
		got := make([]byte, len(interim))
		if _, err := io.ReadFull(c.br, got); err != nil || string(got) != interim {
			t.Fatalf("%s: %q %v", expect, got, err)
		}
		c.send("abc")
		if _, body := c.message(); body != "abc" {
			t.Errorf("%s: got %q", expect, body)
		}
	}
	// HTTP/1.0 clients get no interim answer, whatever they expect; nor do clients that expect
	// nothing.
	for _, first := range []string{"HTTP/1.0\r\nExpect: 100-continue", "HTTP/1.0\r\nexpect: 100-Continue", "HTTP/1.1\r\nA: b"} {
		c := dial(t, addr)
		c.send("POST / " + first + "\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
		if head, body := c.message(); !strings.HasPrefix(head, "HTTP/1.1 200 ") || body != "abc" {
			t.Errorf("%s: got %q %q", first, head, body)
		}
	}
}
