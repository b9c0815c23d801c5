//go:build linux

package transport_test

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// hijacked holds requests whose answers are written outside of fasthttp's loop, each with what the
// upstream answers before it waits for the end of the connection.
var hijacked = map[string]struct{ request, answer string }{
	"HTTP/1.0":     {"GET /second HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"},
	"upgrade":      {strings.Replace(upgrade, "/ws", "/second", 1), "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"},
	"early answer": {"PUT /second HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n" + strings.Repeat("x", 20_000), "HTTP/1.1 413 Too Large\r\nContent-Length: 7\r\n\r\ntoo"},
}

// hijacking returns a front whose client gets a normal answer, too long for a buffer, and then a
// hijacked one, which is relayed after breaks has returned. The channel is closed when the upstream
// sees the end of the second request.
func hijacking(t *testing.T, answer string, breaks func(*fasthttp.RequestCtx)) (f *front, ended chan struct{}) {
	ended = make(chan struct{})
	plain := "HTTP/1.1 200 OK\r\nContent-Length: 6000\r\n\r\n" + strings.Repeat("p", 6000)
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				return
			}
			for head := ""; head != "\r\n"; {
				if head, err = br.ReadString('\n'); err != nil {
					return
				}
			}
			if strings.Contains(line, "/second ") {
				break
			}
			_, _ = io.WriteString(c, plain)
		}
		_, _ = io.WriteString(c, answer)
		_, _ = io.Copy(io.Discard, br)
		close(ended)
	})
	f = &front{up: newUpstream(t, o.config("")), outcomes: make(chan transport.Outcome, 2), errs: make(chan error, 1)}
	f.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
		response, err := do(ctx, f.up, transport.Call{})
		if err != nil {
			t.Error(err)
			return
		}
		if string(ctx.Path()) == "/second" {
			breaks(ctx)
		}
		response.Relay(ctx, transport.Relay{Done: func(o transport.Outcome) { f.outcomes <- o }})
	}, transport.ServerOptions{})
	return f, ended
}

// If a client sends two requests at once and leaves after the head of the first answer, the second
// one ends, however its answer would be written.
func TestPipelinedThenReset(t *testing.T) {
	for name, second := range hijacked {
		t.Run(name, func(t *testing.T) {
			reached := make(chan struct{})
			f, ended := hijacking(t, second.answer, func(ctx *fasthttp.RequestCtx) {
				close(reached)
				for !transport.Left(ctx.Conn()) {
					runtime.Gosched()
				}
			})
			c := dial(t, f.addr)
			c.send(get + second.request)
			if _, err := c.br.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			await(t, reached, "second request")
			_ = c.SetLinger(0)
			c.Close()
			for range 2 {
				await(t, f.outcomes, "outcome")
			}
			await(t, ended, "end at the upstream")
		})
	}
}

// If the connection breaks after the handler and before its answer is written, fasthttp never calls
// the hijack handler that would end the upstreamCall. It must end anyway.
func TestHijackDropped(t *testing.T) {
	for name, second := range hijacked {
		t.Run(name, func(t *testing.T) {
			f, ended := hijacking(t, second.answer, func(ctx *fasthttp.RequestCtx) { _ = ctx.Conn().Close() })
			c := dial(t, f.addr)
			c.send(second.request)
			if out := await(t, f.outcomes, "outcome"); transport.ClassOf(out.Err) != transport.ClientGone {
				t.Errorf("got %v, want %s", out.Err, transport.ClientGone)
			}
			await(t, ended, "end at the upstream")
		})
	}
}
