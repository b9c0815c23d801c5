package transport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
)

// A Server answers requests on its listeners. It is made by NewServer.
type Server struct {
	http  *fasthttp.Server
	guard *guard
}

// Serve answers requests on ln until Shutdown, and then returns nil. A lack of
// descriptors or of memory for one more connection does not end it.
func (s *Server) Serve(ln net.Listener) error {
	l := &listener{Listener: ln, guard: s.guard, over: make(chan struct{})}
	defer l.lingering.Wait()
	return s.http.Serve(l)
}

// Shutdown stops listening and lets open requests end while ctx lasts; then it
// returns ctx's error. Connections without a request, or with a part of its head, are
// closed at once. Clients are watched until the last has gone.
func (s *Server) Shutdown(ctx context.Context) error {
	g := s.guard
	err := s.http.ShutdownWithContext(ctx)
	g.clients.closeWaiting() // also of a server that never served
	if err == nil {
		err = g.clients.wait(ctx) // fasthttp does not wait for what it does not write itself
	}
	if err == nil {
		g.hangups.close()
		return nil
	}
	panics.Go(g.options.Panicked, func() {
		<-g.clients.none
		g.hangups.close()
	}, nil)
	return err
}

// Cut ends the connections that are open after Shutdown; what is being answered on them
// breaks off, and looks so.
func (s *Server) Cut() { s.guard.clients.cut() }

// Connections is how many connections of clients have not ended.
func (s *Server) Connections() int { return s.guard.clients.count() }

const (
	// refusals is how many refused connections are given time to read why. More
	// of them at once are cut right after it was written.
	refusals = 256
	// maxPause is the longest wait for a descriptor to become free.
	maxPause = time.Second
)

// A listener refuses connections beyond ServerOptions.Connections. fasthttp would
// do that in plain text and without Retry-After; and it would end at the first
// lack of a descriptor.
type listener struct {
	net.Listener
	guard     *guard
	closing   sync.Once
	over      chan struct{} // closed with the listener
	refused   atomic.Int64  // that linger
	lingering sync.WaitGroup
}

// Accept returns the next connection that there is room for.
func (l *listener) Accept() (net.Conn, error) {
	pause := time.Duration(0)
	for {
		c, err := l.Listener.Accept()
		switch {
		case err == nil && l.guard.clients.count() < l.guard.options.Connections:
			return l.guard.newConn(c), nil
		case err == nil:
			l.guard.shed("connections")
			l.refuse(c)
			pause = 0
		case exhausted(err):
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

// wait lets d pass, unless the listener is closed before.
func (l *listener) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.over:
		return false
	}
}

// Close stops the listener. When fasthttp calls it, no connection goes on to another
// request: those that wait for one are closed. fasthttp itself closes only those that
// had one before and have seen no byte of the next.
func (l *listener) Close() error {
	l.closing.Do(func() {
		close(l.over)
		l.guard.clients.closeWaiting()
	})
	return l.Listener.Close()
}

// refuse says why and closes c. What is written fits the kernel's buffer of a new
// connection, so nobody is waited for.
func (l *listener) refuse(c net.Conn) {
	const code = "overloaded"
	var lines strings.Builder
	for _, line := range l.guard.errorHead(code) {
		fmt.Fprintf(&lines, "%s: %s\r\n", line.Name, line.Value)
	}
	body := l.guard.options.ErrorBody(fasthttp.StatusServiceUnavailable, code)
	_, err := fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n%s"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s", lines.String(), len(body), body)
	if err != nil || l.refused.Add(1) > refusals {
		_ = c.Close()
		return
	}
	l.lingering.Add(1)
	panics.Go(l.guard.options.Panicked, func() {
		defer l.refused.Add(-1)
		defer c.Close() //nolint:errcheck // nothing is left to be lost
		linger(c)
	}, l.lingering.Done)
}

// exhausted reports whether an error of Accept is one that passes.
func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// follow follows the connections that fasthttp serves. Those that it has let go of end
// elsewhere, see hijack.
func (g *guard) follow(c net.Conn, state fasthttp.ConnState) {
	switch state {
	case fasthttp.StateActive:
		c.(*clientConn).waits.CompareAndSwap(forRequest, forHead)
	case fasthttp.StateIdle:
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

// connections is how many may be open when nobody says: each may need another
// one to the upstream, and files stay open beside them.
func connections() int {
	const usual = 16 << 10
	return min(usual, max(descriptorLimit()/2-64, 16))
}

// unlimited is what fasthttp is told: it would refuse where the listener does.
const unlimited = math.MaxInt32
