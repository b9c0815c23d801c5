package transport

import (
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/inbound"
	"sidenote/proxy/transport/tcp"
	"sidenote/proxy/transport/wire"
)

// A Server answers requests on its listeners. It is made by NewServer.
type Server struct {
	http  *fasthttp.Server
	guard *guard
}

// Serve answers requests on ln, which may be an *inbound.Listener, until Shutdown, and then
// returns nil. It may be called for several listeners. A lack of descriptors or of memory for one more connection does not end it.
func (s *Server) Serve(ln net.Listener) error {
	l := &listener{Listener: ln, guard: s.guard, closed: make(chan struct{})}
	l.port, _ = ln.(*inbound.Listener)
	defer l.lingering.Wait()
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
func (s *Server) Connections() int { return s.guard.clients.count() }

const (
	// maxRefused is how many refused connections at once are given time to read the
	// refusal. More of them are closed right after it was written.
	maxRefused = 256
	// maxPause is the longest wait for a descriptor to become free.
	maxPause = time.Second
)

// A listener refuses connections beyond ServerOptions.Connections. fasthttp would do
// that in plain text and without Retry-After, and it would stop serving at the first
// lack of a descriptor.
type listener struct {
	net.Listener
	port      *inbound.Listener // its settings; nil: none
	guard     *guard
	closing   sync.Once
	closed    chan struct{} // closed with the listener
	refused   atomic.Int64  // refused connections that linger
	lingering sync.WaitGroup
}

// Accept returns the next connection that is not refused.
func (l *listener) Accept() (net.Conn, error) {
	pause := time.Duration(0)
	for {
		c, err := l.Listener.Accept()
		switch {
		case err == nil && l.guard.clients.count() < l.guard.options.Connections:
			return l.guard.newConn(c, l.port), nil
		case err == nil:
			l.guard.shed("connections")
			l.refuse(c)
			pause = 0
		case tcp.Exhausted(err):
			l.guard.shed("descriptors")
			pause = min(max(2*pause, 5*time.Millisecond), maxPause)
			if !l.wait(pause) {
				return nil, net.ErrClosed
			}
		default:
			return nil, err
		}
	}
}

// wait waits for d. It returns false at once when the listener is closed.
func (l *listener) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.closed:
		return false
	}
}

// Close stops the listener and closes the connections that have not read a whole head. fasthttp
// itself would close only those that had a request before and have seen no byte of the next.
func (l *listener) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		l.guard.clients.closeWaiting()
	})
	return l.Listener.Close()
}

// refuse answers with a 503 and closes c. The answer fits into the kernel's buffer of a
// new connection, so writing it never waits.
func (l *listener) refuse(c net.Conn) {
	const code = "overloaded"
	if l.port != nil && l.port.TLS != nil { // an answer would take a handshake, which costs more than serving
		_ = c.Close()
		return
	}
	var lines strings.Builder
	for _, line := range l.guard.errorHead(code) {
		fmt.Fprintf(&lines, "%s: %s\r\n", line.Name, line.Value)
	}
	body := l.guard.options.ErrorBody(fasthttp.StatusServiceUnavailable, code)
	_, err := fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n%s"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s", lines.String(), len(body), body)
	if err != nil || l.refused.Add(1) > maxRefused {
		_ = c.Close()
		return
	}
	l.lingering.Add(1)
	panics.Go(l.guard.options.Panicked, func() {
		defer l.refused.Add(-1)
		defer c.Close() //nolint:errcheck // nothing is left to be lost
		tcp.Linger(c)
	}, l.lingering.Done)
}

// connState is told by fasthttp of the states of connections. Connections that were
// hijacked end in hijack.
func (g *guard) connState(c net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateActive:
		c.(*clientConn).waits.CompareAndSwap(forRequest, forHead)
	case fasthttp.StateIdle:
		c.(*clientConn).replied, c.(*clientConn).head = false, wire.HeadScanner{}
		c.(*clientConn).waits.Store(forRequest)
	case fasthttp.StateClosed:
		c.(*clientConn).end()
	}
}

func (g *guard) shed(reason string) {
	if g.options.Shed != nil {
		g.options.Shed(reason)
	}
}

// unlimited is fasthttp's limit of connections: the listener has its own.
const unlimited = math.MaxInt32
