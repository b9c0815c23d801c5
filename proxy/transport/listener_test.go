package transport_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

const getLong = "GET /long HTTP/1.1\r\nHost: h\r\n\r\n"

// untilUnused waits until n connections of s have no request, which is a moment after the clients
// get their answers.
func untilUnused(s *transport.Server, n int) {
	for transport.Unused(s) != n {
		runtime.Gosched()
	}
}

// into sends reasons to shed unless it is full: a test may be refused many times.
func into(shed chan string) func(string) {
	return func(reason string) {
		select {
		case shed <- reason:
		default:
		}
	}
}

// longing answers /long when end receives a value, /no with a refusal, and others at once. began
// receives a value for each /long.
func longing(began, end chan struct{}) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		switch string(ctx.Path()) {
		case "/long":
			began <- struct{}{}
			<-end
		case "/no":
			ctx.SetStatusCode(fasthttp.StatusUnauthorized)
		}
	}
}

// A connection beyond the limit gets an answer with Retry-After. When a request has ended there is
// room again.
func TestConnectionLimit(t *testing.T) {
	shed, began, end := make(chan string, 100), make(chan struct{}), make(chan struct{})
	addr := serve(t, longing(began, end), transport.ServerOptions{Connections: 2, Shed: into(shed)})
	defer close(end)
	for range 2 {
		dial(t, addr).send(getLong)
		await(t, began, "request")
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
	end <- struct{}{}
	for served := false; !served; { // until the server has noticed the end
		c := dial(t, addr)
		c.send(get)
		head, _ := c.message()
		served = strings.HasPrefix(head, "HTTP/1.1 200 ")
		c.Close()
	}
}

// A full server closes connections without a request in progress, first those whose last request
// was refused. A connection whose head is arriving has some time for the rest.
func TestFullServerMakesRoom(t *testing.T) {
	shed, began, end := make(chan string, 100), make(chan struct{}), make(chan struct{})
	ln := listen(t)
	s, addr := serveOn(t, ln, longing(began, end), transport.ServerOptions{Connections: 4, Shed: into(shed)}), ln.Addr().String()
	defer close(end)
	idle, refused, head, busy := dial(t, addr), dial(t, addr), dial(t, addr), dial(t, addr)
	idle.send(get)
	idle.message()
	refused.send("GET /no HTTP/1.1\r\nHost: h\r\n\r\n")
	refused.message()
	head.send(get + "GET / HT")
	head.message()
	busy.send(getLong)
	await(t, began, "request")
	untilUnused(s, 2)
	for _, gone := range []*client{refused, idle} {
		c := dial(t, addr)
		c.send(getLong)
		await(t, began, "request in the place of another")
		if reason := await(t, shed, "closed connection"); reason != "idle" || !gone.ended() {
			t.Errorf("shed for %s, or another was closed", reason)
		}
	}
	last := dial(t, addr)
	last.send(get)
	if got := last.rest(); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("got %q", got)
	}
	head.send("TP/1.1\r\nHost: h\r\n\r\n")
	if got, _ := head.message(); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("a head that was on its way got %q", got)
	}
}

// One address cannot exceed its maximum of connections. Those without a request make room for new
// ones. Clients behind a load balancer count by the address in its PROXY header, and proxies that
// carry the requests of many clients are not counted.
func TestConnectionsPerAddress(t *testing.T) {
	const refusal = `{"error":{"status":503,"code":"too_many_connections"}}`
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	for name, row := range map[string]struct {
		heads   [4]string // sent on the connections before their requests
		proxies []netip.Prefix
		trusted []netip.Prefix
		refused [4]bool
	}{
		"one client":                   {refused: [4]bool{2: true, 3: true}},
		"a proxy":                      {trusted: []netip.Prefix{loopback}},
		"a load balancer":              {proxies: []netip.Prefix{loopback}, heads: [4]string{proxied("192.0.2.1"), proxied("192.0.2.1"), proxied("192.0.2.1"), proxied("192.0.2.2")}, refused: [4]bool{2: true}},
		"the load balancer's own":      {proxies: []netip.Prefix{loopback}, heads: [4]string{proxied(""), proxied(""), proxied(""), proxied("")}, refused: [4]bool{2: true, 3: true}},
		"clients with networks of own": {proxies: []netip.Prefix{loopback}, heads: [4]string{proxied("2001:db8::1"), proxied("2001:db8::2"), proxied("2001:db8::3"), proxied("2001:db8:0:1::1")}, refused: [4]bool{2: true}},
	} {
		began, end := make(chan struct{}), make(chan struct{})
		addresses := &transport.Addresses{MaxConnections: 2, Trusted: row.trusted}
		shed := make(chan string, 100)
		ln := &transport.Listener{Listener: listen(t), Proxies: row.proxies}
		s, addr := serveOn(t, ln, longing(began, end), transport.ServerOptions{Addresses: addresses, Shed: into(shed)}), ln.Addr().String()
		var open []*client
		for i, head := range row.heads {
			c := dial(t, addr)
			c.send(head + getLong)
			if row.refused[i] {
				if got := c.rest(); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.HasSuffix(got, refusal) {
					t.Errorf("%s: connection %d got %q", name, i, got)
				}
				if reason := await(t, shed, "refusal"); reason != "address" {
					t.Errorf("%s: shed for %s", name, reason)
				}
				continue
			}
			await(t, began, name+": request")
			open = append(open, c)
		}
		close(end)
		for _, c := range open {
			c.message()
		}
		untilUnused(s, len(open))
		if len(open) < 4 { // an idle one makes room for another from the same address
			c := dial(t, addr)
			c.send(row.heads[0] + get)
			if got, _ := c.message(); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Errorf("%s: got %q", name, got)
			}
			if reason := await(t, shed, "closed connection"); reason != "idle" {
				t.Errorf("%s: shed for %s", name, reason)
			}
		}
	}
}

// proxied returns the PROXY header for a client, or for a connection of the proxy itself.
func proxied(addr string) string {
	family := "TCP4"
	switch {
	case addr == "":
		return "PROXY UNKNOWN\r\n"
	case strings.Contains(addr, ":"):
		family = "TCP6"
	}
	return "PROXY " + family + " " + addr + " " + addr + " 1000 80\r\n"
}

// failing is a listener that has no descriptors for the first connections.
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

// When descriptors run out, the server waits until some are free again. Shutdown does not wait for
// that.
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
	dial(t, l.Addr().String()).Close() // ends the waiting Accept
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := await(t, stopped, "end of Serve"); err != nil {
		t.Errorf("Serve ended with %v", err)
	}
}
