package transport_test

import (
	"context"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// A connection beyond the limit gets an answer that says when to come back. When another
// one has ended there is room again.
func TestConnectionLimit(t *testing.T) {
	shed := make(chan string, 1)
	addr := serve(t, func(*fasthttp.RequestCtx) {}, transport.ServerOptions{Connections: 2, Shed: func(reason string) {
		select {
		case shed <- reason:
		default: // the loop below may be refused several times
		}
	}})
	first, second := dial(t, addr), dial(t, addr)
	for _, c := range []*client{first, second} { // after an answer both are counted
		c.send(get)
		c.message()
	}
	third := dial(t, addr)
	third.send(get)
	want := "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nContent-Length: 44\r\nConnection: close\r\n\r\n" +
		`{"error":{"status":503,"code":"overloaded"}}`
	if got := third.rest(); got != want {
		t.Errorf("got %q", got)
	}
	if reason := await(t, shed, "refusal"); reason != "connections" {
		t.Errorf("shed for %s", reason)
	}
	first.Close()
	for served := false; !served; { // until the server has noticed the end
		c := dial(t, addr)
		c.send(get)
		head, _ := c.message()
		served = strings.HasPrefix(head, "HTTP/1.1 200 ")
		c.Close()
	}
}

// failing is a listener without descriptors for the first connections.
type failing struct {
	net.Listener
	errs chan error
}

func (l *failing) Accept() (net.Conn, error) {
	select {
	case err := <-l.errs:
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", err)}
	default:
		return l.Listener.Accept()
	}
}

// While there are no descriptors, the server waits until there are some again. Shutdown does
// not wait for that.
func TestDescriptorsRunOut(t *testing.T) {
	l := &failing{listen(t), make(chan error, 100)}
	shed := make(chan string, 100)
	s := transport.NewServer(func(*fasthttp.RequestCtx) {}, transport.ServerOptions{ErrorBody: errorBody, Shed: func(reason string) { shed <- reason }})
	lacks := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS}
	for _, err := range lacks {
		l.errs <- err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Serve(l) }()
	for range lacks {
		if reason := await(t, shed, "lack"); reason != "descriptors" {
			t.Errorf("shed for %s", reason)
		}
	}
	c := dial(t, l.Addr().String())
	c.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if got := c.rest(); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("got %q", got)
	}
	for range 50 {
		l.errs <- syscall.EMFILE
	}
	dial(t, l.Addr().String()).Close() // ends the Accept that is waiting
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := await(t, stopped, "end of Serve"); err != nil {
		t.Errorf("Serve ended with %v", err)
	}
}
