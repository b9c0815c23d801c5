//go:build unix

package transport_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// A panic while an answer is written cuts that answer, whether it is written by fasthttp, which
// hides panics, or by this package, as for an HTTP/1.0 client.
func TestBodyStreamWriter(t *testing.T) {
	o := answering(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n")
	u := newUpstream(t, o.config(""))
	bugs, outcomes := make(chan any, 1), make(chan transport.Outcome, 1)
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		answer, err := do(ctx, u, transport.Call{})
		if err != nil {
			t.Error(err)
			return
		}
		how := transport.Relay{Done: func(o transport.Outcome) { outcomes <- o }}
		switch string(ctx.Path()) {
		case "/tap":
			how.OnPiece = func([]byte) { panic("tap") }
		case "/done":
			how.Done = func(o transport.Outcome) {
				outcomes <- o
				panic("done")
			}
		}
		answer.Relay(ctx, how)
	}, transport.ServerOptions{Panicked: func(value any, _ []byte) { bugs <- value }})
	for _, version := range []string{"1.1", "1.0"} {
		c := dial(t, addr)
		c.send("GET /tap HTTP/" + version + "\r\nHost: h\r\n\r\n")
		if got, err := io.ReadAll(c); strings.Contains(string(got), "whole") || version == "1.0" && err == nil {
			t.Errorf("HTTP/%s: a cut looks whole: %q, %v", version, got, err)
		}
		if bug := await(t, bugs, "bug"); bug != "tap" {
			t.Errorf("HTTP/%s: heard of %v", version, bug)
		}
		if out := await(t, outcomes, "outcome"); transport.ClassOf(out.Err) != transport.Internal {
			t.Errorf("HTTP/%s: outcome %v", version, out.Err)
		}
		c = dial(t, addr)
		c.send("GET /done HTTP/" + version + "\r\nHost: h\r\nConnection: close\r\n\r\n")
		if got := c.rest(); !strings.Contains(got, "whole") {
			t.Errorf("HTTP/%s: got %q", version, got)
		}
		if bug := await(t, bugs, "bug"); bug != "done" {
			t.Errorf("HTTP/%s: heard of %v", version, bug)
		}
		if out := await(t, outcomes, "outcome"); out.Err != nil {
			t.Errorf("HTTP/%s: outcome %v", version, out.Err)
		}
	}
	if n := u.Busy(); n != 0 {
		t.Errorf("%d connections to the upstream are in use", n)
	}
}

// A panic in the hang-up callback is recovered.
func TestWatchPanics(t *testing.T) {
	for name := range looks() {
		t.Run(name, func(t *testing.T) {
			server, peer := pair(t)
			told := make(chan struct{})
			stop := transport.WatchHangup(server, name == "portable", func() {
				defer close(told)
				panic("told")
			})
			peer.Close()
			await(t, told, "hang-up")
			stop()
		})
	}
}

// If a handler panics between the upstream's answer and its relay, and recovers that itself, the
// connection is returned.
func TestPanicBeforeRelay(t *testing.T) {
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		_, _, _ = readMessage(br)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_, _ = br.ReadByte()
	})
	u := newUpstream(t, o.config(""))
	addr := serve(t, func(ctx *fasthttp.RequestCtx) {
		defer func() {
			_ = recover()
			ctx.SetStatusCode(500)
		}()
		_, _ = do(ctx, u, transport.Call{})
		panic("between head and relay")
	}, transport.ServerOptions{})
	c := dial(t, addr)
	for range 2 {
		c.send(get)
		if head, _ := c.message(); !strings.HasPrefix(head, "HTTP/1.1 500 ") {
			t.Errorf("got %q", head)
		}
		if n := u.Busy(); n != 0 {
			t.Errorf("%d connections to the upstream are in use", n)
		}
	}
}
