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

// Error codes of refused connections.
const (
	CodeOverloaded         = "overloaded"           // the server has its maximum of connections
	CodeTooManyConnections = "too_many_connections" // the client's address has its maximum
)

// Reasons why a Gate sheds connections.
const (
	ShedConnections = "connections" // refused: the server is full
	ShedAddress     = "address"     // refused: their address has too many
	ShedIdle        = "idle"        // closed while idle, to make room
	ShedDescriptors = "descriptors" // not accepted: no descriptor is free
)

const (
	// maxRefused limits how many refused connections at once get time to read the refusal. Others
	// are closed right after it is written.
	maxRefused = 256
	// maxPause is the longest wait for a descriptor to become free.
	maxPause = time.Second
)

// A Crowd is a Set of connections of any type.
type Crowd interface {
	MakeRoom() (ok bool, closed int)
	Enter(addr netip.Addr) (ok bool, closed int)
	Relieve() (closed int)
}

// GateOptions are the settings of a Gate.
type GateOptions struct {
	MaxConnections int   // maximum of open connections
	Crowd          Crowd // set that admits the connections
	Reserve        bool  // keep a descriptor in reserve, to accept a connection when no other is free
	// Refusal returns the header lines, each with its CRLF, and the JSON body of a 503 with that
	// code.
	Refusal  func(code string) (head string, body []byte)
	Shed     func(reason string) // called for each connection that was refused or closed; may be nil
	Panicked panics.Handler
}

// A Gate accepts connections while there is room and refuses others with a 503. Running out of
// descriptors or memory does not end it.
type Gate struct {
	net.Listener
	Port *Listener // settings of the port; nil: none

	options   GateOptions
	spare     tcp.Spare
	closing   sync.Once
	closed    chan struct{} // closed with the listener
	refused   atomic.Int64  // number of refused connections that linger
	lingering sync.WaitGroup
}

// NewGate returns a Gate for ln, which may be a *Listener.
func NewGate(ln net.Listener, o GateOptions) *Gate {
	g := &Gate{Listener: ln, options: o, closed: make(chan struct{})}
	g.Port, _ = ln.(*Listener)
	return g
}

// Admit returns the next connection that is not refused, and the address that the Crowd admitted:
// the zero Addr if that is not counted, or not known before a PROXY header.
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

// admit admits or refuses c.
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

// Proxied reports whether connections from peer begin with a PROXY protocol header.
func (g *Gate) Proxied(peer net.Addr) bool { return g.Port.fromProxy(AddressOf(peer)) }

// Shed reports shed connections to GateOptions.Shed.
func (g *Gate) Shed(reason string, times int) {
	if g.options.Shed == nil {
		return
	}
	for range times {
		g.options.Shed(reason)
	}
}

// wait waits for d. It returns false as soon as the listener is closed.
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

// Wait waits until the refused connections have ended. Call it after the last Admit.
func (g *Gate) Wait() {
	g.lingering.Wait()
	g.spare.Release()
}

// Message returns the error message of a refusal code.
func Message(code string) string {
	if code == CodeTooManyConnections {
		return "Your address has as many connections as max_connections_per_address allows; close some, or use those that are open."
	}
	return "Sidenote has as many connections as it can serve; try again."
}

// Refusal returns the HTTP answer to a refused connection.
func Refusal(head string, body []byte) string {
	return "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n" + head +
		fmt.Sprintf("Content-Length: %d\r\nConnection: close\r\n\r\n", len(body)) + string(body)
}

// refuse answers with a 503 and closes c. The write never waits, since the answer fits into the
// kernel's buffer of a new connection.
func (g *Gate) refuse(c net.Conn, code string) {
	if g.Port != nil && g.Port.TLS != nil { // an answer needs a handshake, which costs more than a request
		_ = c.Close()
		return
	}
	if _, err := io.WriteString(c, Refusal(g.options.Refusal(code))); err != nil {
		_ = c.Close()
		return
	}
	if g.refused.Add(1) > int64(min(maxRefused, max(2, g.options.MaxConnections/8))) {
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
