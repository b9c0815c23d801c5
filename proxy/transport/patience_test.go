//go:build unix

package transport_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// A timer that runs late, whenever that is, ends no request that it was not set for:
// those of a connection go on one after another, and only the one whose client leaves
// is cancelled.
func TestLateTimer(t *testing.T) {
	for name, look := range looks() {
		t.Run(name, func(t *testing.T) {
			last := make(chan struct{})
			o := newOrigin(t, func(c net.Conn, br *bufio.Reader) {
				for {
					head, _, err := readMessage(br)
					if err != nil {
						return
					}
					if strings.HasPrefix(head, "GET /last ") {
						close(last)
						continue
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			u := newUpstream(t, o.config(""))
			look(u)
			f := &front{up: u, outcomes: make(chan transport.Outcome, 1), errs: make(chan error, 1)}
			over := make(chan struct{})
			var start sync.Once
			var late sync.WaitGroup
			f.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
				conn := ctx.Conn()
				start.Do(func() {
					late.Go(func() {
						for {
							select {
							case <-over:
								return
							default:
								transport.Impatient(conn)
							}
						}
					})
				})
				f.relay(ctx, transport.Request{})
			}, transport.ServerOptions{})
			defer late.Wait()
			defer close(over)
			c := dial(t, f.addr)
			for range 300 {
				c.send(get)
				if _, body := c.message(); body != "ok" {
					t.Fatalf("got %q", body)
				}
				if out := await(t, f.outcomes, "outcome"); out.Err != nil {
					t.Fatal(out.Err)
				}
			}
			c.send(strings.Replace(get, "/", "/last", 1))
			await(t, last, "last request")
			c.Close()
			if err := await(t, f.errs, "error"); transport.ClassOf(err) != transport.ClientGone {
				t.Errorf("got %v, want %s", err, transport.ClientGone)
			}
			if n := o.count(); n != 1 {
				t.Errorf("%d connections to the upstream, want 1", n)
			}
		})
	}
}
