package transport

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

// A Server answers requests on its listeners. It is made by NewServer.
type Server struct {
	http  *fasthttp.Server
	guard *guard
}

// Serve answers requests on ln, which may be an *Listener, until Shutdown, and then
// returns nil. It may be called for several listeners. A lack of descriptors or of memory for one more connection does not end it.
func (s *Server) Serve(ln net.Listener) error {
	g := s.guard
	l := &listener{guard: g, Gate: NewGate(ln, GateOptions{
		Most: g.clients.set.Most, Crowd: &g.clients.set, Reserve: g.options.Reserve,
		Refusal: g.refusal, Shed: g.options.Shed, Panicked: g.options.Panicked,
	})}
	defer l.Wait()
	return s.http.Serve(l)
}

// Shutdown stops listening and lets open requests end while ctx lasts; then it
// returns ctx's error. Connections without a request, or with a part of its head, are
// closed at once. Hang-ups of clients are noticed until the last one has gone.
func (s *Server) Shutdown(ctx context.Context) error {
	g := s.guard
	err := s.http.ShutdownWithContext(ctx)
	g.clients.closeWaiting() // for a server that never served; otherwise listener.Close has done it
	if err == nil {
		err = g.clients.wait(ctx) // fasthttp does not wait for connections that were hijacked
	}
	if err == nil {
		g.hangups.Close()
		return nil
	}
	panics.Go(g.options.Panicked, func() {
		<-g.clients.allEnded
		g.hangups.Close()
	}, nil)
	return err
}

// Cut resets the connections that are open after Shutdown, so that clients notice that
// their answers were cut.
func (s *Server) Cut() { s.guard.clients.cut() }

// Connections returns how many connections of clients have not ended.
func (s *Server) Connections() int { return s.guard.clients.set.Len() }

// A listener refuses connections beyond ServerOptions.Connections. fasthttp would do
// that in plain text and without Retry-After, and it would stop serving at the first
// lack of a descriptor.
type listener struct {
	*Gate
	guard   *guard
	closing sync.Once
}

// Accept returns the next connection that is not refused.
func (l *listener) Accept() (net.Conn, error) {
	c, addr, err := l.Admit()
	if err != nil {
		return nil, err
	}
	return l.guard.newConn(c, addr, l.Gate), nil
}

// Close stops the listener and closes the connections that have not read a whole head. fasthttp
// itself would close only those that had a request before and have seen no byte of the next.
func (l *listener) Close() error {
	l.closing.Do(l.guard.clients.closeWaiting)
	return l.Gate.Close()
}

// refusal makes what a Gate answers.
func (g *guard) refusal(code string) (head string, body []byte) {
	var lines strings.Builder
	for _, line := range g.errorHead(code) {
		fmt.Fprintf(&lines, "%s: %s\r\n", line.Name, line.Value)
	}
	return lines.String(), g.options.ErrorBody(fasthttp.StatusServiceUnavailable, code)
}

// connState is told by fasthttp of the states of connections. Connections that were
// hijacked end in hijack.
func (g *guard) connState(c net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateActive:
		if client := c.(*clientConn); client.waits.Load() == forRequest { // its head is not whole
			client.since.Store(int64(tcp.Clock()))
			client.waits.CompareAndSwap(forRequest, forHead)
		}
	case fasthttp.StateIdle:
		c.(*clientConn).replied, c.(*clientConn).head = false, http1.HeadScanner{}
		c.(*clientConn).waits.Store(forRequest)
	case fasthttp.StateClosed:
		c.(*clientConn).end()
	}
}

// unlimited is fasthttp's limit of connections: the listener has its own.
const unlimited = math.MaxInt32
