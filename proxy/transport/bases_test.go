package transport_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// named returns an origin that answers each request with its name and the body that it got, and
// with the connection's Close if the body asks for it.
func named(t *testing.T, ln net.Listener, name string) *origin {
	return newOriginOn(t, ln, func(c net.Conn, br *bufio.Reader) {
		for {
			_, body, err := readMessage(br)
			if err != nil {
				return
			}
			text := name + " got " + body
			if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text); err != nil || strings.Contains(body, "close") {
				return
			}
		}
	})
}

// refused returns a listener's address at which nothing listens any more.
func refused(t *testing.T) string {
	ln := listen(t)
	defer ln.Close()
	return ln.Addr().String()
}

func baseAt(addr string) transport.Config {
	return transport.Config{BaseURL: &url.URL{Scheme: "http", Host: addr}, Connect: patience, FirstByte: patience, Idle: patience}
}

func newBases(t *testing.T, list ...transport.Config) *transport.Bases {
	t.Helper()
	b, err := transport.NewBases(list...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// poster returns a function that sends a body through a server that relays to b, and returns the
// answer's body, or the error's text.
func poster(t *testing.T, b *transport.Bases) func(body string) string {
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		answer, err := b.Do(transport.Watch(ctx, context.Background()), transport.Call{Head: transport.Capture(ctx)})
		if err != nil {
			ctx.SetBodyString(err.Error())
			return
		}
		answer.Relay(ctx, transport.Relay{})
	}, transport.ServerOptions{})
	return func(body string) string {
		c := dial(t, addr)
		defer c.Close()
		c.send(fmt.Sprintf("POST /v1 HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		_, got := c.message()
		return got
	}
}

// A base URL that refuses connections is replaced by the next one, skipped, and used again once
// Check could connect to it.
func TestBasesInOrder(t *testing.T) {
	first := refused(t)
	b := newBases(t, baseAt(first), baseAt(named(t, listen(t), "second").ln.Addr().String()))
	post := poster(t, b)
	if got := post("hello"); got != "second got hello" {
		t.Fatalf("%q", got)
	}
	if s := b.States(); s[0].Err == nil || s[0].Since.IsZero() || s[1].Err != nil || !s[1].Known {
		t.Errorf("%+v", s)
	}
	ln, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatal(err)
	}
	named(t, ln, "first")
	if got := post("hello"); got != "second got hello" {
		t.Errorf("a base URL that refused was not skipped: %q", got)
	}
	b.Check(t.Context())
	if s := b.States(); s[0].Err != nil {
		t.Errorf("%+v", s)
	}
	if got := post("hello"); got != "first got hello" {
		t.Errorf("%q", got)
	}
}

// If no base URL can be reached, the error names each.
func TestBasesAllRefuse(t *testing.T) {
	one, two := refused(t), refused(t)
	post := poster(t, newBases(t, baseAt(one), baseAt(two)))
	for range 2 { // the second time, both were to be skipped
		got := post("hello")
		if !strings.HasPrefix(got, "upstream connect: http://"+one+": ") || !strings.Contains(got, "; http://"+two+": ") || strings.Count(got, "refused") != 2 {
			t.Errorf("%q", got)
		}
	}
}

// Once a byte was sent, no other base URL is tried.
func TestBasesNotAfterAByte(t *testing.T) {
	cut := newOrigin(t, func(_ net.Conn, br *bufio.Reader) { _, _ = br.ReadByte() })
	other := named(t, listen(t), "second")
	post := poster(t, newBases(t, baseAt(cut.ln.Addr().String()), baseAt(other.ln.Addr().String())))
	if got := post("hello"); !strings.HasPrefix(got, "upstream closed_early: ") {
		t.Errorf("%q", got)
	}
	if n := other.count(); n != 0 {
		t.Errorf("%d connections to the other base URL", n)
	}
}

// The next base URL gets the whole body of a request for which a kept connection turned out to be
// closed and a new one was refused.
func TestBasesAfterStaleConnection(t *testing.T) {
	first := named(t, listen(t), "first")
	b := newBases(t, baseAt(first.ln.Addr().String()), baseAt(named(t, listen(t), "second").ln.Addr().String()))
	post := poster(t, b)
	if got := post("close"); got != "first got close" {
		t.Fatalf("%q", got)
	}
	first.ln.Close()
	if got := post("hello"); got != "second got hello" {
		t.Errorf("%q", got)
	}
}

// Each base URL has its own path and host.
func TestBasesHavePaths(t *testing.T) {
	echo := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		head, _, _ := readMessage(br)
		line, _, _ := strings.Cut(head, "\r\n")
		_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(line), line)
	})
	one, two := baseAt(refused(t)), baseAt(echo.ln.Addr().String())
	one.BaseURL.Path, two.BaseURL.Path = "/one", "/two"
	if got := poster(t, newBases(t, one, two))("x"); got != "POST /two/v1 HTTP/1.1" {
		t.Errorf("%q", got)
	}
}

// Check connects only to where nothing was heard of lately, and sends nothing.
func TestCheckSendsNothing(t *testing.T) {
	got := make(chan string, 1)
	silent := newOrigin(t, func(_ net.Conn, br *bufio.Reader) {
		text, _ := io.ReadAll(br)
		got <- string(text)
	})
	b := newBases(t, baseAt(silent.ln.Addr().String()), baseAt(refused(t)))
	if s := b.States(); s[0].Known || s[1].Known {
		t.Errorf("known before a connection: %+v", s)
	}
	b.Check(t.Context())
	if text := await(t, got, "connection of Check"); text != "" {
		t.Errorf("Check sent %q", text)
	}
	s := b.States()
	if !s[0].Known || s[0].Err != nil || !s[1].Known || transport.ClassOf(s[1].Err) != transport.ConnectFailed {
		t.Errorf("%+v", s)
	}
	b.Check(t.Context())
	if n := silent.count(); n != 1 {
		t.Errorf("%d connections, though the first was a moment ago", n)
	}
	if later := b.States(); !later[1].Since.Equal(s[1].Since) {
		t.Errorf("the outage began at %v, then at %v", s[1].Since, later[1].Since)
	}
}

// The error says which limit was exceeded.
func TestErrorsHaveLimits(t *testing.T) {
	head := make(chan struct{})
	hangs := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		if _, body, _ := readMessage(br); body == "begin" {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
		}
		<-head
	})
	t.Cleanup(func() { close(head) })
	const limit = 20 * time.Millisecond
	c := baseAt(hangs.ln.Addr().String())
	c.FirstByte, c.Idle = limit, limit
	u := newUpstream(t, c)
	f := relaying(t, u)
	for body, want := range map[string]transport.Class{"": transport.FirstByteTimeout, "begin": transport.IdleTimeout} {
		dial(t, f.addr).send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		var err error
		select {
		case err = <-f.errs:
		case o := <-f.outcomes:
			err = o.Err
		case <-time.After(patience):
			t.Fatal("nothing came")
		}
		if transport.ClassOf(err) != want || transport.LimitOf(err) != limit || !strings.Contains(err.Error(), "nothing within 20ms") {
			t.Errorf("%q: %v, %v", body, err, transport.LimitOf(err))
		}
	}
}
