package transport

import (
	"context"
	"maps"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// What a client's connection waits for when it is read from.
const (
	forOther   int32 = iota // whoever reads has set the deadline
	forRequest              // its first byte
	forHead                 // what is missing of it
	forRest                 // likewise, within the deadline that was set for it
	forNothing              // it was closed while it waited
)

// A clientConn is a connection that the server accepted. It minds the deadlines
// that fasthttp would set anew several times a request: of a request's first byte,
// of its head, and of each Write that gets on.
type clientConn struct {
	timed
	state *requestState // of the request that a handler has, else nil
	guard *guard
	waits atomic.Int32 // forOther and so on
	head  headRead
	flush time.Duration // in which a Write must get on

	failed error // of a Read; whoever reads may ask

	token    uint64                   // by which the hangup watcher knows it; 0: not at all
	gone     atomic.Bool              // the hangup watcher saw its peer leave
	watching atomic.Pointer[exchange] // exchange while its leaving ends that
	exchange exchange
}

func (g *guard) newConn(c net.Conn) *clientConn {
	if tcp, err := newTCP(c, g.options.Raw); err == nil { // else it is something of a test's
		c = tcp
	}
	client := &clientConn{timed: timed{Conn: c}, guard: g, flush: g.options.Write}
	client.waits.Store(forHead) // to fasthttp the first request has begun, with no byte of it
	g.hangups.add(client)
	g.clients.add(client)
	return client
}

// clientOf returns the client's connection of ctx, which is of a Server.
func clientOf(ctx *fasthttp.RequestCtx) *clientConn { return ctx.Conn().(*clientConn) }

// stateOf returns what is known of ctx's request, while its handler runs.
func stateOf(ctx *fasthttp.RequestCtx) *requestState { return clientOf(ctx).state }

// Read implements net.Conn.
func (c *clientConn) Read(p []byte) (int, error) {
	var err error
	waits := c.waits.Load()
	switch waits {
	case forRequest:
		err = c.waitRead(c.guard.options.Idle)
	case forHead: // all of it within one deadline
		c.waits.CompareAndSwap(forHead, forRest)
		err = c.timed.SetReadDeadline(time.Now().Add(c.guard.options.Read))
	}
	if err != nil {
		return 0, err
	}
	if waits != forOther {
		return c.readHead(p, waits == forRequest)
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		c.failed = err
	}
	return n, err
}

// readHead is Read of a head, unless what has arrived of it can be none. It may also be
// of the body that fasthttp reads ahead, if nothing of a head begins or stands before it.
func (c *clientConn) readHead(p []byte, begins bool) (int, error) {
	begins = begins || c.head.buffer == nil
	before := c.head.before(p, c.guard.options.HeadBytes)
	if bareLine(before, math.MaxInt) {
		return 0, errBareLine
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		c.failed = err
	}
	if begins || len(before) > 0 {
		c.head.bare = bareLine(c.head.buffer[:min(len(before)+n, len(c.head.buffer))], 1)
	}
	return n, err
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

// hungUp is called by the hangup watcher when the peer has closed its side.
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
	c.guard.hangups.forget(c)
	return c.Conn.Close()
}

// end is called once, when c is closed and nobody will write to it any more. An answer
// that was left to fasthttp may not have been written: it drops what it cannot begin.
func (c *clientConn) end() {
	defer c.guard.clients.forget(c)
	_ = c.exchange.stream.CloseWithError(net.ErrClosed) // always nil
	c.exchange.abandon()
}

// closeWaiting closes c unless a request is under way on it.
func (c *clientConn) closeWaiting() {
	for _, waits := range []int32{forRequest, forHead, forRest} { // as they follow each other
		if c.waits.CompareAndSwap(waits, forNothing) {
			_ = c.Close()
			return
		}
	}
}

// A connSet holds the connections of a server that have not ended.
type connSet struct {
	mu      sync.Mutex
	clients map[*clientConn]struct{}
	over    bool
	none    chan struct{} // closed when the last has ended, once it is over
}

func (r *connSet) add(c *clientConn) {
	r.mu.Lock()
	over := r.over
	r.clients[c] = struct{}{}
	r.mu.Unlock()
	if over {
		c.closeWaiting()
	}
}

func (r *connSet) forget(c *clientConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.clients, c)
	r.tell()
}

// tell closes none when there is nothing left to wait for.
func (r *connSet) tell() {
	if !r.over || len(r.clients) > 0 {
		return
	}
	select {
	case <-r.none:
	default:
		close(r.none)
	}
}

// wait returns when the last connection has ended, or with ctx's error.
func (r *connSet) wait(ctx context.Context) error {
	select {
	case <-r.none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count is how many connections there are.
func (r *connSet) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.clients)
}

// closeWaiting closes all connections without a request, and those that are yet
// to come.
func (r *connSet) closeWaiting() {
	r.mu.Lock()
	r.over = true
	clients := slices.Collect(maps.Keys(r.clients))
	r.tell()
	r.mu.Unlock()
	for _, c := range clients {
		c.closeWaiting()
	}
}

// cut resets all connections.
func (r *connSet) cut() {
	r.mu.Lock()
	clients := slices.Collect(maps.Keys(r.clients))
	r.mu.Unlock()
	for _, c := range clients {
		if tcp, ok := tcpOf(c); ok {
			_ = tcp.SetLinger(0) // or the end of the connection could be that of an answer
		}
		_ = c.Close()
	}
}

// CloseWrite ends our side of the connection.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}
