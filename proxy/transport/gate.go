package transport

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/tcp"
)

// Codes of errors of connections that are refused.
const (
	CodeOverloaded         = "overloaded"           // the server has as many as it may
	CodeTooManyConnections = "too_many_connections" // their address has
)

// Reasons for which a Gate sheds connections.
const (
	ShedConnections = "connections" // refused: the server is full
	ShedAddress     = "address"     // refused: their address has too many
	ShedIdle        = "idle"        // closed without a request under way, to make room
	ShedDescriptors = "descriptors" // could not be accepted: no descriptor is free
)

const (
	// maxRefused is how many refused connections at once are given time to read the refusal, at
	// most. More of them are closed right after it was written.
	maxRefused = 256
	// maxPause is the longest wait for a descriptor to become free.
	maxPause = time.Second
)

// A Crowd is a Set of any connections.
type Crowd interface {
	MakeRoom() (ok bool, closed int)
	Enter(addr netip.Addr) (ok bool, closed int)
	Relieve() (closed int)
}

// GateOptions are the settings of a Gate.
type GateOptions struct {
	Most    int   // connections at once
	Crowd   Crowd // that they join
	Reserve bool  // keeps a descriptor back, so that a connection is accepted when no other is free
	// Refusal makes the header lines, each with its CRLF, and the JSON body of a 503 with a code.
	Refusal  func(code string) (head string, body []byte)
	Shed     func(reason string) // called for each connection that is closed to make room; may be nil
	Panicked panics.Handler
}

// A Gate accepts the connections of a server that there is room for, and refuses others with a 503.
// A lack of descriptors or of memory for one more connection does not end it.
type Gate struct {
	net.Listener
	Port *Listener // its settings; nil: none

	options   GateOptions
	spare     tcp.Spare
	closing   sync.Once
	closed    chan struct{} // closed with the listener
	refused   atomic.Int64  // refused connections that linger
	lingering sync.WaitGroup
}

// NewGate returns a Gate for ln, which may be a *Listener.
func NewGate(ln net.Listener, o GateOptions) *Gate {
	g := &Gate{Listener: ln, options: o, closed: make(chan struct{})}
	g.Port, _ = ln.(*Listener)
	return g
}

// Admit returns the next connection that is not refused, and the address by which the Crowd has let
// it in: the zero Addr if that is not counted, or not known before the header of a load balancer.
func (g *Gate) Admit() (net.Conn, netip.Addr, error) {
	pause := time.Duration(0)
	for {
		if g.options.Reserve {
			g.spare.Keep()
		}
		c, err := g.Listener.Accept()
		switch {
		case err == nil:
			pause = 0
			if addr, ok := g.admit(c); ok {
				return c, addr, nil
			}
		case tcp.Exhausted(err):
			g.Shed(ShedDescriptors, 1)
			if g.spare.Release() {
				continue
			}
			g.Shed(ShedIdle, g.options.Crowd.Relieve())
			pause = min(max(2*pause, 5*time.Millisecond), maxPause)
			if !g.wait(pause) {
				return nil, netip.Addr{}, net.ErrClosed
			}
		default:
			return nil, netip.Addr{}, err
		}
	}
}

// admit lets c in, or refuses it.
func (g *Gate) admit(c net.Conn) (netip.Addr, bool) {
	ok, closed := g.options.Crowd.MakeRoom()
	g.Shed(ShedIdle, closed)
	if !ok {
		g.Shed(ShedConnections, 1)
		g.refuse(c, CodeOverloaded)
		return netip.Addr{}, false
	}
	addr := netip.Addr{}
	if !g.Proxied(c.RemoteAddr()) {
		addr = AddressOf(c.RemoteAddr())
	}
	ok, closed = g.options.Crowd.Enter(addr)
	g.Shed(ShedIdle, closed)
	if !ok {
		g.Shed(ShedAddress, 1)
		g.refuse(c, CodeTooManyConnections)
	}
	return addr, ok
}

// Proxied reports whether a header of the PROXY protocol tells the address of a connection from peer.
func (g *Gate) Proxied(peer net.Addr) bool { return g.Port.fromProxy(AddressOf(peer)) }

// Shed tells of connections that were shed for a reason.
func (g *Gate) Shed(reason string, times int) {
	if g.options.Shed == nil {
		return
	}
	for range times {
		g.options.Shed(reason)
	}
}

// wait waits for d. It returns false at once when the listener is closed.
func (g *Gate) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-g.closed:
		return false
	}
}

// Close stops the listener.
func (g *Gate) Close() error {
	g.closing.Do(func() { close(g.closed) })
	return g.Listener.Close()
}

// Wait returns when the refused connections have ended. Call it after the last Admit.
func (g *Gate) Wait() {
	g.lingering.Wait()
	g.spare.Release()
}

// Message returns what people are told of a refusal with a code.
func Message(code string) string {
	if code == CodeTooManyConnections {
		return "Your address has as many connections as max_connections_per_address allows; close some, or use those that are open."
	}
	return "Sidenote has as many connections as it can serve; try again."
}

// Refusal returns the answer to a connection that is refused with a code.
func Refusal(head string, body []byte) string {
	return "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n" + head +
		fmt.Sprintf("Content-Length: %d\r\nConnection: close\r\n\r\n", len(body)) + string(body)
}

// refuse answers with a 503 and closes c. The answer fits into the kernel's buffer of a
// new connection, so writing it never waits.
func (g *Gate) refuse(c net.Conn, code string) {
	if g.Port != nil && g.Port.TLS != nil { // an answer would take a handshake, which costs more than serving
		_ = c.Close()
		return
	}
	if _, err := io.WriteString(c, Refusal(g.options.Refusal(code))); err != nil {
		_ = c.Close()
		return
	}
	if g.refused.Add(1) > int64(min(maxRefused, max(2, g.options.Most/8))) {
		g.refused.Add(-1)
		_ = c.Close()
		return
	}
	g.lingering.Add(1)
	panics.Go(g.options.Panicked, func() {
		defer g.refused.Add(-1)
		defer c.Close() //nolint:errcheck // nothing is left to be lost
		tcp.Linger(c)
	}, g.lingering.Done)
}
