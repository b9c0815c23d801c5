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

// Shutdown waits only for requests in progress.
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

// P6: a request with a complete head is in progress even if its body has not arrived: Shutdown
// waits for the body and answers. This holds for the first request of a connection and for later
// ones.
func TestShutdownWaitsForBodies(t *testing.T) {
	for name, before := range map[string]string{"first": "", "next": get} {
		s := transport.NewServer(func(ctx *fasthttp.RequestCtx) {
			if body, _, err := transport.ReadBody(ctx, 100, patience, nil); err == nil {
				ctx.SetBody(body)
			}
		}, transport.ServerOptions{ErrorBody: errorBody})
		ln := listen(t)
		served, down := make(chan error, 1), make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		idle, c := dial(t, ln.Addr().String()), dial(t, ln.Addr().String())
		idle.send(get)
		idle.message()
		if before != "" {
			c.send(before)
			c.message()
		}
		c.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
		if head, _ := c.message(); head != "HTTP/1.1 100 Continue\r\n\r\n" { // the head has been read
			t.Errorf("%s: %q", name, head)
		}
		go func() { down <- s.Shutdown(context.Background()) }()
		if got, err := io.ReadAll(idle.br); len(got) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: an idle connection got %q, %v", name, got, err)
		}
		c.send("body")
		if got, want := c.rest(), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody"; got != want {
			t.Errorf("%s: got %q", name, got)
		}
		for _, ended := range []chan error{down, served} {
			if err := await(t, ended, "end"); err != nil {
				t.Error(err)
			}
		}
	}
}
