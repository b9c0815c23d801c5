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

	"sidenote/proxy/transport/inbound"
	"sidenote/proxy/transport/tcp"
	"sidenote/proxy/transport/wire"
)

// What a client's connection is read for. It decides the deadline of a Read.
const (
	forOther   int32 = iota // anything else: the reader has set the deadline
	forRequest              // the first byte of a request
	forHead                 // the head of a request; its deadline is not set yet
	forRest                 // the rest of a head, within the deadline that was set for it
	forWhole                // nothing yet: the first Read has got the whole head, and its deadline is not set
	forBody                 // the beginning of a body, within the deadline of its head
	forNothing              // the connection was closed while it waited
)

// A clientConn is a connection that the server accepted. It sets the deadlines for the first byte
// of a request, for its head and for Writes, which fasthttp would set several times for each.
type clientConn struct {
	tcp.Timed
	state *requestState // of the request while its handler runs, else nil
	guard *guard
	port  *inbound.Listener // by which it came, nil for a plain one
	waits atomic.Int32      // forOther, forRequest, …
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

func (g *guard) newConn(c net.Conn, port *inbound.Listener) *clientConn {
	if plain, err := tcp.New(c, g.options.Raw); err == nil { // an error means a test's connection, which is not TCP
		c = port.Serve(plain, g.options.Write)
	}
	client := &clientConn{Timed: tcp.Timed{Conn: c}, guard: g, port: port, flush: g.options.Write}
	client.waits.Store(forHead) // fasthttp takes a new connection for one whose first request has begun
	client.head.Begin()
	if plain, ok := tcp.Of(client); ok && g.options.hungUp == nil {
		client.token = g.hangups.Add(plain, client.hungUp)
	}
	g.clients.add(client)
	return client
}

// PeerOf returns what the connection of ctx, which is of a Server, says of who called.
func PeerOf(ctx *fasthttp.RequestCtx) inbound.Peer {
	c := clientOf(ctx)
	return inbound.PeerOf(c.port, tcp.TLSOf(c))
}

// clientOf returns the client's connection of ctx, which is of a Server.
func clientOf(ctx *fasthttp.RequestCtx) *clientConn { return ctx.Conn().(*clientConn) }

// stateOf returns the state of ctx's request. It is there while the handler runs.
func stateOf(ctx *fasthttp.RequestCtx) *requestState { return clientOf(ctx).state }

// Read implements net.Conn. It fails if what has arrived of a head holds a bare line feed.
func (c *clientConn) Read(p []byte) (int, error) {
	waits := c.waits.Load()
	if waits != forOther {
		if err := c.beforeHead(waits); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		c.readErr = err
	}
	if waits != forOther {
		c.scan(p[:n])
	}
	return n, err
}

// beforeHead sets the deadline for a Read of a head. One begins where fasthttp has used all that
// has arrived: it also Reads ahead in a body, or the rest of a head that came with the request
// before, whose bare line feeds are noticed once it is whole, or its time is over.
func (c *clientConn) beforeHead(waits int32) (err error) {
	switch waits {
	case forRequest:
		c.head.Begin()
		return c.WaitRead(c.guard.options.Idle)
	case forHead, forWhole: // one deadline for the whole head, and for what fasthttp reads ahead
		c.waits.CompareAndSwap(forHead, forRest)
		c.waits.CompareAndSwap(forWhole, forBody)
		err = c.Timed.SetReadDeadline(time.Now().Add(c.guard.options.Read))
	}
	c.scan(nil)
	if c.head.Bare {
		return wire.ErrBareLine
	}
	return err
}

// scan goes on with a head. Once it is whole the request is under way, see closeWaiting.
func (c *clientConn) scan(p []byte) {
	c.head.Scan(p)
	if c.head.Whole() {
		c.waits.CompareAndSwap(forRest, forBody)
		c.waits.CompareAndSwap(forRequest, forWhole)
	}
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
		c.guard.clients.closing.Load() || !bodyWasRead(ctx, c.state.bodyRead)
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
	return tcp.Close(c.Conn)
}

// end is called when c is closed and nothing will be written to it any more. It also ends a
// tunnel that has not begun: fasthttp drops what was to follow an answer that it cannot write.
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
	closing  atomic.Bool   // connections without a request are closed; set while mu is held
	allEnded chan struct{} // closed when closing is set and the last connection has ended
}

func (r *connSet) add(c *clientConn) {
	r.mu.Lock()
	closing := r.closing.Load()
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
	if !r.closing.Load() || len(r.clients) > 0 {
		return
	}
	select {
	case <-r.allEnded:
	default:
		close(r.allEnded)
	}
}

// wait returns when the last connection has ended, or with ctx's error if that comes first.
func (r *connSet) wait(ctx context.Context) error {
	select {
	case <-r.allEnded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count returns how many connections there are.
func (r *connSet) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.clients)
}

// closeWaiting closes the connections on which no request is under way, and those added later.
func (r *connSet) closeWaiting() {
	r.mu.Lock()
	r.closing.Store(true)
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
		tcp.Reset(c)
		_ = c.Close()
	}
}

// CloseWrite ends our side of the connection.
func (c *clientConn) CloseWrite() error { return tcp.CloseWrite(c.Conn) }
