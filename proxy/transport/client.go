package transport

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// What a client's connection waits for when it is read from.
const (
	forOther   int32 = iota // whoever reads has set the deadline
	forRequest              // its first byte
	forHead                 // what is missing of it
)

// A clientConn is a connection that the server accepted. It minds the deadlines
// that fasthttp would set anew several times a request: of a request's first byte,
// of its head, and of each Write that gets on.
type clientConn struct {
	timed
	state *requestState // of the request that a handler has, else nil
	guard *guard
	waits atomic.Int32  // forOther, forRequest or forHead
	flush time.Duration // in which a Write must get on

	token    uint64                   // by which the lookout knows it; 0: not at all
	gone     atomic.Bool              // the lookout saw its peer leave
	watching atomic.Pointer[exchange] // exchange while its leaving ends that
	exchange exchange
}

func (g *guard) newConn(c net.Conn) *clientConn {
	if tcp, err := newTCP(c); err == nil { // else it is something of a test's
		c = tcp
	}
	client := &clientConn{timed: timed{Conn: c}, guard: g, flush: g.options.Write}
	g.lookout.add(client)
	return client
}

// clientOf returns the client's connection of ctx, which is of a Server.
func clientOf(ctx *fasthttp.RequestCtx) *clientConn { return ctx.Conn().(*clientConn) }

// stateOf returns what is known of ctx's request, while its handler runs.
func stateOf(ctx *fasthttp.RequestCtx) *requestState { return clientOf(ctx).state }

// Read implements net.Conn.
func (c *clientConn) Read(p []byte) (int, error) {
	var err error
	switch c.waits.Load() {
	case forRequest:
		err = c.waitRead(c.guard.options.Idle)
	case forHead: // all of it within one deadline
		err = c.SetReadDeadline(time.Now().Add(c.guard.options.Read))
	}
	if err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// SetDeadline implements net.Conn.
func (c *clientConn) SetDeadline(at time.Time) error {
	c.waits.Store(forOther)
	return c.timed.SetDeadline(at)
}

// SetReadDeadline implements net.Conn.
func (c *clientConn) SetReadDeadline(at time.Time) error {
	c.waits.Store(forOther)
	return c.timed.SetReadDeadline(at)
}

// Write implements net.Conn. It lasts as long as the client takes bytes.
func (c *clientConn) Write(p []byte) (int, error) { return c.writeWithin(p, c.flush) }

// hungUp is called by the lookout when the peer has closed its side.
func (c *clientConn) hungUp() {
	c.gone.Store(true)
	if x := c.watching.Load(); x != nil {
		x.hangUp()
	}
}

// watch lets the peer's leaving, even if that was before, end x.
func (c *clientConn) watch(x *exchange) {
	c.watching.Store(x)
	if c.gone.Load() {
		x.hangUp()
	}
}

// Close implements net.Conn.
func (c *clientConn) Close() error {
	c.guard.lookout.forget(c)
	return c.Conn.Close()
}

// CloseWrite ends our side of the connection.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}
