package transport_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// Shutdown waits for requests under way, and for nothing else.
func TestShutdownClosesWhatWaits(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	s := transport.NewServer(func(ctx *fasthttp.RequestCtx) {
		if string(ctx.Path()) == "/long" {
			close(began)
			<-end
		}
	}, transport.ServerOptions{ErrorBody: errorBody})
	ln := listen(t)
	served, down := make(chan error, 1), make(chan error, 1)
	go func() { served <- s.Serve(ln) }()

	busy := dial(t, ln.Addr().String())
	busy.send("GET /long HTTP/1.1\r\nHost: h\r\n\r\n")
	await(t, began, "request")
	waiting := map[string]*client{}
	for name, sent := range map[string]string{
		"no byte":           "",
		"half a first line": "GET /lo",
		"half a head":       "GET /long HTTP/1.1\r\nHost: h\r\nA:",
		"idle":              get,
		"half a next head":  get + "GET /long HTT",
	} {
		c := dial(t, ln.Addr().String())
		c.send(sent)
		if len(sent) >= len(get) && sent[:len(get)] == get {
			c.message()
		}
		waiting[name] = c
	}
	go func() { down <- s.Shutdown(context.Background()) }()
	for name, c := range waiting {
		if got, err := io.ReadAll(c.br); len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	select {
	case err := <-down:
		t.Errorf("did not wait for the request: %v", err)
	default:
	}
	close(end)
	if got, want := busy.rest(), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"; got != want {
		t.Errorf("the request under way got %q", got)
	}
	for _, ended := range []chan error{down, served} {
		if err := await(t, ended, "end"); err != nil {
			t.Error(err)
		}
	}
}
