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

// A Server answers requests on its listeners. Create it with NewServer.
type Server struct {
	http  *fasthttp.Server
	guard *guard
}

// Serve answers requests on ln, which may be a *Listener, until Shutdown, then returns nil. It may
// be called for several listeners. Running out of descriptors or memory does not end it.
func (s *Server) Serve(ln net.Listener) error {
	g := s.guard
	l := &listener{guard: g, Gate: NewGate(ln, GateOptions{
		MaxConnections: g.clients.set.MaxConnections, Crowd: &g.clients.set, Reserve: g.options.Reserve,
		Refusal: g.refusal, Shed: g.options.Shed, Panicked: g.options.Panicked,
	})}
	defer l.Wait()
	return s.http.Serve(l)
}

// Shutdown stops listening and waits for open requests to end, or returns ctx's error if ctx ends
// first. Connections without a complete request head are closed at once. Hang-ups of clients are
// noticed until the last connection has ended.
func (s *Server) Shutdown(ctx context.Context) error {
	g := s.guard
	err := s.http.ShutdownWithContext(ctx)
	g.clients.closeWaiting() // only needed if Serve was never called; else listener.Close has done it
	if err == nil {
		err = g.clients.wait(ctx) // fasthttp does not wait for hijacked connections
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

// Cut resets the connections still open after Shutdown, so that clients notice that their answers
// were cut.
func (s *Server) Cut() { s.guard.clients.cut() }

// Connections returns the number of open client connections.
func (s *Server) Connections() int { return s.guard.clients.set.Len() }

// A listener refuses connections beyond ServerOptions.Connections. fasthttp would do that in plain
// text without Retry-After, and would stop serving when it first runs out of descriptors.
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

// Close stops the listener and closes connections without a complete request head. fasthttp itself
// would close only those that wait between two requests.
func (l *listener) Close() error {
	l.closing.Do(l.guard.clients.closeWaiting)
	return l.Gate.Close()
}

// refusal is GateOptions.Refusal.
func (g *guard) refusal(code string) (head string, body []byte) {
	var lines strings.Builder
	for _, line := range g.errorHead(code) {
		fmt.Fprintf(&lines, "%s: %s\r\n", line.Name, line.Value)
	}
	return lines.String(), g.options.ErrorBody(fasthttp.StatusServiceUnavailable, code)
}

// connState is the ConnState hook of fasthttp. Hijacked connections end in their hijack handler.
func (g *guard) connState(c net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateActive:
		if client := c.(*clientConn); client.waits.Load() == forRequest { // its head is incomplete
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

// unlimited disables fasthttp's connection limit; the listener has its own.
const unlimited = math.MaxInt32
