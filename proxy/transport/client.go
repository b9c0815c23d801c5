package transport

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport/tcp"
	"sidenote/proxy/transport/wire"
)

// What a client's connection is read for. It decides the deadline of a Read.
const (
	forOther   int32 = iota // anything else: the reader has set the deadline
	forRequest              // the first byte of a request
	forHead                 // the head of a request; its deadline is not set yet
	forRest                 // the rest of a head, within the deadline that was set for it
	forNothing              // the connection was closed while it waited
)

// A clientConn is a connection that the server accepted. It sets the deadlines for the
// first byte of a request, for its head and for Writes, which fasthttp would set
// several times for each request.
type clientConn struct {
	tcp.Timed
	state *requestState // of the request while its handler runs, else nil
	guard *guard
	waits atomic.Int32 // forOther, forRequest, …
	head  wire.HeadScanner
	flush time.Duration // a Write fails if the client takes nothing for so long, see writeWithin

	readErr error // of the last Read that failed

	replied bool // the request was answered by this package: what fasthttp writes is dropped
	cut     bool // the client left before its answer was whole, or did not take it

	token    uint64                // by which the hangup watcher knows it; 0: not at all
	gone     atomic.Bool           // the hangup watcher saw its peer leave
	watching atomic.Pointer[watch] // what a hang-up ends; nil if there is nothing
	tunnel   *tunnel               // after a switch to another protocol
	call     upstreamCall          // the first one of a request
}

func (g *guard) newConn(c net.Conn) *clientConn {
	if plain, err := tcp.New(c, g.options.Raw); err == nil { // an error means a test's connection, which is not TCP
		c = plain
	}
	client := &clientConn{Timed: tcp.Timed{Conn: c}, guard: g, flush: g.options.Write}
	client.waits.Store(forHead) // fasthttp takes a new connection for one whose first request has begun
	client.head.Begin()
	if plain, ok := tcp.Of(client); ok && g.options.hungUp == nil {
		client.token = g.hangups.Add(plain, client.hungUp)
	}
	g.clients.add(client)
	return client
}

// clientOf returns the client's connection of ctx, which is of a Server.
func clientOf(ctx *fasthttp.RequestCtx) *clientConn { return ctx.Conn().(*clientConn) }

// stateOf returns the state of ctx's request. It is there while the handler runs.
func stateOf(ctx *fasthttp.RequestCtx) *requestState { return clientOf(ctx).state }

// Read implements net.Conn.
func (c *clientConn) Read(p []byte) (int, error) {
	var err error
	waits := c.waits.Load()
	switch waits {
	case forRequest:
		err = c.WaitRead(c.guard.options.Idle)
	case forHead: // one deadline for the whole head
		c.waits.CompareAndSwap(forHead, forRest)
		err = c.Timed.SetReadDeadline(time.Now().Add(c.guard.options.Read))
	}
	if err != nil {
		return 0, err
	}
	if waits != forOther {
		return c.readHead(p, waits == forRequest)
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		c.readErr = err
	}
	return n, err
}

// readHead reads a part of a head. It fails if what has arrived holds a bare line feed.
//
// fasthttp may also call it to read ahead in a body, or for the rest of a head that has
// arrived with the request before it. So a head begins only where fasthttp waits for one:
// it has used all that has arrived. Bare line feeds of other heads are noticed once the
// head is whole, or its time is over.
func (c *clientConn) readHead(p []byte, begins bool) (int, error) {
	if begins {
		c.head.Begin()
	}
	if c.head.Bare {
		return 0, wire.ErrBareLine
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		c.readErr = err
	}
	c.head.Scan(p[:n])
	return n, err
}

// SetDeadline implements net.Conn.
func (c *clientConn) SetDeadline(at time.Time) error {
	c.waits.Store(forOther)
	return c.Timed.SetDeadline(at)
}

// SetReadDeadline implements net.Conn.
func (c *clientConn) SetReadDeadline(at time.Time) error {
	c.waits.Store(forOther)
	return c.Timed.SetReadDeadline(at)
}

// Write implements net.Conn for fasthttp, which answers each request after its handler, and
// does not know when Reply has done that.
func (c *clientConn) Write(p []byte) (int, error) {
	if c.replied {
		return len(p), nil
	}
	return c.WriteWithin(p, c.flush)
}

// watched reports whether the hangup watcher sees c.
func (c *clientConn) watched() bool { return c.token != 0 }

// closes reports whether c is closed after the answer to ctx's request.
func (c *clientConn) closes(ctx *fasthttp.RequestCtx) bool {
	return ctx.Request.Header.ConnectionClose() || ctx.Response.ConnectionClose() ||
		c.guard.clients.isClosing() || !bodyWasRead(ctx, c.state.bodyRead)
}

// hungUp is called by the hangup watcher when the peer has closed its side.
func (c *clientConn) hungUp() {
	c.gone.Store(true)
	if w := c.watching.Load(); w != nil {
		w.leave()
	}
}

// Close implements net.Conn.
func (c *clientConn) Close() error {
	c.guard.hangups.Forget(c.token)
	return c.Conn.Close()
}

// end is called when c is closed and nothing will be written to it any more. It also ends
// a tunnel that has not begun: fasthttp drops what was to follow an answer if it cannot
// write that.
func (c *clientConn) end() {
	defer c.guard.clients.forget(c)
	if c.tunnel != nil {
		c.tunnel.end(net.ErrClosed)
	}
}

// closeWaiting closes c unless a request is under way on it.
func (c *clientConn) closeWaiting() {
	for _, waits := range []int32{forRequest, forHead, forRest} { // in this order, as a request that begins meanwhile goes through them
		if c.waits.CompareAndSwap(waits, forNothing) {
			_ = c.Close()
			return
		}
	}
}

// A connSet holds the connections of a server that have not ended.
type connSet struct {
	mu       sync.Mutex
	clients  map[*clientConn]struct{}
	closing  bool          // connections without a request are closed
	allEnded chan struct{} // closed when closing is set and the last connection has ended
}

func (r *connSet) add(c *clientConn) {
	r.mu.Lock()
	closing := r.closing
	r.clients[c] = struct{}{}
	r.mu.Unlock()
	if closing {
		c.closeWaiting()
	}
}

func (r *connSet) forget(c *clientConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.clients, c)
	r.signalIfEnded()
}

// signalIfEnded closes allEnded if the server is closing and no connection is left.
func (r *connSet) signalIfEnded() {
	if !r.closing || len(r.clients) > 0 {
		return
	}
	select {
	case <-r.allEnded:
	default:
		close(r.allEnded)
	}
}

// wait returns when the last connection has ended, or with ctx's error if that comes
// first.
func (r *connSet) wait(ctx context.Context) error {
	select {
	case <-r.allEnded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *connSet) isClosing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closing
}

// count returns how many connections there are.
func (r *connSet) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.clients)
}

// closeWaiting closes all connections on which no request is under way. Connections
// that are added later are closed, too.
func (r *connSet) closeWaiting() {
	r.mu.Lock()
	r.closing = true
	clients := slices.Collect(maps.Keys(r.clients))
	r.signalIfEnded()
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
		if plain, ok := tcp.Of(c); ok {
			_ = plain.SetLinger(0) // a reset: clients may take a normal close for the end of an answer
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
