//go:build linux

package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// fill writes to c until the buffers are full.
func (c *client) fill() {
	c.t.Helper()
	_ = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	for piece := make([]byte, 64<<10); ; {
		if _, err := c.Write(piece); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		} else if err != nil {
			c.t.Fatal(err)
		}
	}
}

// If a client resets its connection while the upstream does not read its body, the request ends at
// once, and not only when the wait for the upstream ends.
func TestResetDuringStuckUpload(t *testing.T) {
	for way, look := range looks() {
		t.Run(way, func(t *testing.T) {
			over := make(chan struct{})
			defer close(over)
			o := newOrigin(t, func(net.Conn, *bufio.Reader) { <-over }) // reads nothing
			config := o.config("")
			config.Idle, config.ClientRead = 10*patience, 10*patience
			u := newUpstream(t, config)
			f := look.relaying(t, u, 1)
			c := dial(t, f.addr)
			c.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n")
			c.fill()
			_ = c.SetLinger(0)
			c.Close()
			if err := await(t, f.errs, "error"); transport.ClassOf(err) != transport.ClientGone {
				t.Errorf("got %v, want %s", err, transport.ClientGone)
			}
		})
	}
}

// A connection counts until it ends, whether it is written by fasthttp or by this package.
func TestHijackedConnectionsCount(t *testing.T) {
	for name, second := range hijacked {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
				line, _ := br.ReadString('\n')
				answer := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
				if strings.Contains(line, "/second ") {
					answer = second.answer
				}
				_, _ = io.WriteString(c, answer)
				_, _ = io.Copy(io.Discard, br)
			})
			u := newUpstream(t, o.config(""))
			f := &front{up: u, outcomes: make(chan transport.Outcome, 100), errs: make(chan error, 1)}
			f.addr = serve(t, func(ctx *fasthttp.RequestCtx) { f.relay(ctx, transport.Call{}) }, transport.ServerOptions{Connections: 1})
			open := dial(t, f.addr)
			open.send(second.request)
			if _, err := open.br.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			other := dial(t, f.addr)
			if got := other.rest(); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
				t.Errorf("beside it: %q", got)
			}
			open.Close()
			await(t, f.outcomes, "outcome")
			for served := false; !served; { // until the connection has ended
				c := dial(t, f.addr)
				_, _ = io.WriteString(c, get)
				head, _, _ := readMessage(c.br)
				served = strings.HasPrefix(head, "HTTP/1.1 200 ")
				c.Close()
			}
		})
	}
}

// If an upstream answers and then breaks the connection during a body, its answer is relayed. The
// rest of the client's body is read and dropped, and the client's connection is closed after the
// answer.
func TestEarlyAnswerLingers(t *testing.T) {
	o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 7\r\n\r\ntoo big")
		}
	})
	f := &front{up: newUpstream(t, o.config("")), outcomes: make(chan transport.Outcome, 1), errs: make(chan error, 1)}
	f.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
		response, err := do(ctx, f.up, transport.Call{})
		if err != nil {
			t.Error(err)
			return
		}
		for !transport.Uploaded(response) {
			runtime.Gosched()
		}
		response.Relay(ctx, transport.Relay{Done: func(o transport.Outcome) { f.outcomes <- o }})
	}, transport.ServerOptions{})
	c := dial(t, f.addr)
	const size = 16 << 20
	c.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 16777216\r\n\r\n")
	piece := make([]byte, 64<<10)
	for range size / len(piece) {
		if _, err := c.Write(piece); err != nil {
			t.Fatalf("the rest of the body was not taken: %v", err)
		}
	}
	if got := c.rest(); !strings.HasPrefix(got, "HTTP/1.1 413 Too Large\r\n") || !strings.HasSuffix(got, "\r\n\r\ntoo big") || !strings.Contains(got, "\r\nConnection: close\r\n") {
		t.Errorf("got %q", got)
	}
	if out := await(t, f.outcomes, "outcome"); out.Err != nil {
		t.Error(out.Err)
	}
}

// An answer reaches the client as soon as it is available, whatever follows its request on the
// connection.
func TestPipelinedAnswerIsFlushed(t *testing.T) {
	for name, first := range map[string]string{
		"fixed":       "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"fixed, long": "HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n" + strings.Repeat("x", 90_000),
		"chunked":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"no body":     "HTTP/1.1 204 No Content\r\n\r\n",
		"our own":     "",
	} {
		t.Run(name, func(t *testing.T) {
			next := make(chan struct{})
			o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
				for {
					head, _, err := readMessage(br)
					if err != nil {
						return
					}
					answer := first
					if strings.HasPrefix(head, "GET /second ") {
						select {
						case <-next:
						case <-t.Context().Done():
						}
						answer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"
					}
					_, _ = io.WriteString(c, answer)
				}
			})
			f := &front{up: newUpstream(t, o.config("")), outcomes: make(chan transport.Outcome, 2), errs: make(chan error, 2)}
			f.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
				if first == "" && string(ctx.Path()) == "/" {
					ctx.SetBodyString("ok")
					return
				}
				f.relay(ctx, transport.Call{})
			}, transport.ServerOptions{})
			c := dial(t, f.addr)
			c.send(get + "GET /second HTTP/1.1\r\nHost: h\r\n\r\n")
			c.message()
			close(next)
			if _, body := c.message(); body != "second" {
				t.Errorf("got %q", body)
			}
		})
	}
}

// While Shutdown waits, and after it has given up, the stream of a client that leaves ends.
// Shutdown waits for all streams, whether they are written by fasthttp or by this package.
func TestShutdownWatchesStreams(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		patient bool
	}{"waits": {"1.1", true}, "gave up": {"1.1", false}, "HTTP/1.0, waits": {"1.0", true}, "HTTP/1.0, gave up": {"1.0", false}} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t, func(conn net.Conn, br *bufio.Reader) {
				if _, _, err := readMessage(br); err == nil {
					_, _ = io.WriteString(conn, streamed)
				}
				_, _ = br.ReadByte()
			})
			f := &front{up: newUpstream(t, o.config("")), outcomes: make(chan transport.Outcome, 1), errs: make(chan error, 1)}
			s := transport.NewServer(func(ctx *fasthttp.RequestCtx) { f.relay(ctx, transport.Call{}) }, transport.ServerOptions{ErrorBody: errorBody})
			ln := listen(t)
			served, down := make(chan error, 1), make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			stream := dial(t, ln.Addr().String())
			stream.send("GET / HTTP/" + c.version + "\r\nHost: h\r\n\r\n")
			if _, err := stream.br.ReadString('b'); err != nil {
				t.Fatal(err)
			}
			grace, end := context.WithCancel(t.Context())
			defer end()
			go func() { down <- s.Shutdown(grace) }()
			await(t, served, "end of Serve")
			if !c.patient {
				end()
				if err := await(t, down, "end of Shutdown"); !errors.Is(err, context.Canceled) {
					t.Errorf("Shutdown: %v", err)
				}
			}
			stream.Close()
			if out := await(t, f.outcomes, "outcome"); transport.ClassOf(out.Err) != transport.ClientGone {
				t.Errorf("got %v, want %s", out.Err, transport.ClientGone)
			}
			if c.patient {
				if err := await(t, down, "end of Shutdown"); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
			}
		})
	}
}
