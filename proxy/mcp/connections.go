package mcp

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/proxy/transport/tcp"
)

// A listener accepts the connections of a Server.
type listener struct {
	*transport.Gate
	server *Server
}

// Accept returns the next connection that is not refused: a *clientConn, or a *tls.Conn on top of
// it.
func (l *listener) Accept() (net.Conn, error) {
	plain, addr, err := l.Admit()
	if err != nil {
		return nil, err
	}
	c := &clientConn{Conn: plain, server: l.server}
	c.enter(readingHead)
	l.server.conns.Add(c, addr)
	if l.Port.TLS != nil {
		return tls.Server(c, l.Port.TLS), nil
	}
	return c, nil
}

// refusal is GateOptions.Refusal.
func refusal(code string) (head string, body []byte) {
	return "", tenant.ErrorJSON(transport.Message(code), tenant.ErrorTypeServer, code, "")
}

// Phases of a clientConn.
const (
	readingHead int32 = iota
	idle
	serving
	closed // by CloseUnused
)

// A clientConn is a connection of a client.
type clientConn struct {
	net.Conn
	server  *Server
	phase   atomic.Int32
	since   atomic.Int64 // by tcp.Clock: when the phase began
	refused atomic.Bool  // the caller of the last request was refused
}

// clientConnOf returns the clientConn of a connection that a listener accepted.
func clientConnOf(c net.Conn) *clientConn {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return c.(*clientConn)
}

// connState is the http.Server.ConnState hook.
func connState(c net.Conn, state http.ConnState) {
	conn := clientConnOf(c)
	switch state {
	case http.StateActive: // the head is complete
		conn.enter(serving)
	case http.StateIdle:
		conn.enter(idle)
	case http.StateHijacked, http.StateClosed:
		conn.server.conns.Remove(conn)
	}
}

// enter begins a phase, unless c was closed.
func (c *clientConn) enter(phase int32) {
	c.since.Store(int64(tcp.Clock()))
	for was := c.phase.Load(); was != closed && !c.phase.CompareAndSwap(was, phase); was = c.phase.Load() {
	}
}

// Read implements net.Conn. The first bytes on an idle connection begin a request.
func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.phase.Load() == idle {
		c.since.Store(int64(tcp.Clock()))
		c.phase.CompareAndSwap(idle, readingHead)
	}
	return n, err
}

// State implements transport.Conn.
func (c *clientConn) State() (transport.State, time.Duration) {
	since := time.Duration(c.since.Load())
	switch phase := c.phase.Load(); {
	case phase == readingHead:
		return transport.ReadingHead, since
	case phase == idle && c.refused.Load():
		return transport.Refused, since
	case phase == idle:
		return transport.Idle, since
	}
	return transport.Serving, since
}

// CloseUnused implements transport.Conn.
func (c *clientConn) CloseUnused(state transport.State) bool {
	from := idle
	if state == transport.ReadingHead {
		from = readingHead
	}
	if !c.phase.CompareAndSwap(from, closed) {
		return false
	}
	_ = c.Close()
	return true
}
