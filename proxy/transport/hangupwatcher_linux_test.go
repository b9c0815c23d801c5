package transport_test

import (
	"bufio"
	"net"
	"runtime"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// The epoll set reports a hang-up only once. A request that is sent to the upstream after that must
// end anyway, and take no connection.
func TestLeftBefore(t *testing.T) {
	o := newOrigin(t, func(_ net.Conn, br *bufio.Reader) { _, _ = br.ReadByte() })
	u := newUpstream(t, o.config(""))
	f := &front{up: u, outcomes: make(chan transport.Outcome, 1), errs: make(chan error, 1)}
	f.addr = serve(t, func(ctx *fasthttp.RequestCtx) {
		for !transport.Left(ctx.Conn()) {
			runtime.Gosched()
		}
		f.relay(ctx, transport.Call{})
	}, transport.ServerOptions{})
	c := dial(t, f.addr)
	c.send(get)
	_ = c.CloseWrite()
	if err := await(t, f.errs, "error"); transport.ClassOf(err) != transport.ClientGone {
		t.Errorf("got %v, want %s", err, transport.ClientGone)
	}
	c.rest()
	if n := o.count(); n != 0 {
		t.Errorf("%d connections to the upstream, want none", n)
	}
}
