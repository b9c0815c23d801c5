package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

// What a client's connection waits for. It decides the deadline of a Read.
const (
	forOther   int32 = iota // anything else; the reader has set the deadline
	forRequest              // the first byte of a request
	forHead                 // the head of a request; the deadline is not yet set
	forRest                 // the rest of a head, with the deadline set for it
	forWhole                // the head came whole in the first Read; the deadline is not yet set
	forBody                 // the start of a body, with the deadline of its head
	forNothing              // the connection was closed while it waited
)

// A clientConn is a connection that the server accepted. It sets the deadlines for the first byte
// of a request, for its head and for Writes; fasthttp would set several for each.
type clientConn struct {
	tcp.Timed
	state *requestState // state of the request while its handler runs, else nil
	guard *guard
	gate  *Gate        // the gate that admitted it
	waits atomic.Int32 // forOther, forRequest, …
	since atomic.Int64 // by tcp.Clock: since when it waits for a request, or for the rest of a head
	unset bool         // its address is not known before the PROXY header is read
	short bool         // its head has a shortened deadline
	head  http1.HeadScanner
	flush time.Duration // a Write fails if the client takes nothing for this long, see tcp.Timed.WriteWithin

	readErr error // error of the last failed Read

	refused atomic.Bool // the last request got an error from this package
	lingers atomic.Bool // it was answered, and will be closed when the client closes its side

	replied bool // this package answered the request: what fasthttp writes is dropped
	cut     bool // the client left before it got the whole answer

	token    uint64                // its token in the hangup watcher; 0: not watched
	gone     atomic.Bool           // the hangup watcher saw the peer leave
	watching atomic.Pointer[watch] // context to end on a hang-up; nil if there is none
	tunnel   *tunnel               // set after a switch to another protocol
	call     upstreamCall          // memory for the first call of a request
}

func (g *guard) newConn(c net.Conn, addr netip.Addr, gate *Gate) *clientConn {
	client := &clientConn{guard: g, gate: gate, flush: g.options.Write, unset: gate.Proxied(c.RemoteAddr())}
	if plain, err := tcp.New(c, g.options.Raw); err == nil { // an error means a connection that is not TCP, in tests
		c = gate.Port.Serve(plain, g.options.Write)
	}
	client.Conn = c
	client.since.Store(int64(tcp.Clock()))
	client.waits.Store(forHead) // fasthttp treats a new connection as one whose first request has begun
	client.head.Begin()
	if plain, ok := tcp.Of(client); ok && g.options.hungUp == nil {
		client.token = g.hangups.Add(plain, client.hungUp)
	}
	g.clients.add(client, addr)
	return client
}

// PeerOf returns what is known of the peer of ctx's connection. ctx must be of a Server.
func PeerOf(ctx *fasthttp.RequestCtx) Peer {
	c := clientOf(ctx)
	return InboundPeerOf(c.gate.Port, tcp.TLSOf(c))
}

// clientOf returns the connection of ctx, which must be of a Server.
func clientOf(ctx *fasthttp.RequestCtx) *clientConn { return ctx.Conn().(*clientConn) }

// stateOf returns the state of ctx's request. It is valid while the handler runs.
func stateOf(ctx *fasthttp.RequestCtx) *requestState { return clientOf(ctx).state }

// Read implements net.Conn. It fails if the head received so far has a bare line feed.
func (c *clientConn) Read(p []byte) (int, error) {
	waits := c.waits.Load()
	if waits != forOther {
		if err := c.beforeHead(waits); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if c.unset && err == nil {
		c.unset = false
		if err = c.locate(); err != nil {
			n = 0
		}
	}
	if err != nil {
		c.readErr = err
	}
	if waits != forOther {
		c.scan(p[:n])
	}
	return n, err
}

// beforeHead sets the deadline for a Read of a head. A head starts where fasthttp has consumed
// everything received. fasthttp also reads ahead: in a body, or the rest of a head that came with
// the previous request. Bare line feeds in such a head are noticed once it is complete or late.
func (c *clientConn) beforeHead(waits int32) (err error) {
	switch waits {
	case forRequest:
		c.head.Begin()
		c.since.Store(int64(tcp.Clock()))
		return c.WaitRead(c.guard.options.Idle)
	case forHead, forWhole: // one deadline for the whole head, and for reading ahead
		limit := c.guard.options.Read
		if waits == forHead && c.guard.clients.set.Pressed() {
			c.short, limit = true, min(limit, HeadPatience)
		}
		c.waits.CompareAndSwap(forHead, forRest)
		c.waits.CompareAndSwap(forWhole, forBody)
		err = c.Timed.SetReadDeadline(time.Now().Add(limit))
	}
	c.scan(nil)
	if c.head.Bare {
		return http1.ErrBareLine
	}
	return err
}

// scan scans further bytes of a head. Once the head is complete the request is in progress, see
// closeWaiting.
func (c *clientConn) scan(p []byte) {
	c.head.Scan(p)
	if c.head.Whole() {
		if c.waits.CompareAndSwap(forRest, forBody) && c.short {
			_ = c.Timed.SetReadDeadline(time.Now().Add(c.guard.options.Read)) // the next Read returns the error
		}
		c.short = false
		c.waits.CompareAndSwap(forRequest, forWhole)
	}
}

// errTooMany ends a connection whose address has too many connections.
var errTooMany = errors.New("too many connections of one address")

// locate counts c for its address, as given by the PROXY header. If that has too many connections,
// locate answers with a 503.
func (c *clientConn) locate() error {
	ok, closed := c.guard.clients.set.Locate(c, AddressOf(c.RemoteAddr()))
	c.gate.Shed(ShedIdle, closed)
	if ok {
		return nil
	}
	c.gate.Shed(ShedAddress, 1)
	answer := Refusal(c.guard.refusal(CodeTooManyConnections))
	_, _ = c.WriteWithin([]byte(answer), c.flush) // a client that has left needs no answer
	c.replied = true
	return errTooMany
}

// State implements Conn.
func (c *clientConn) State() (state State, since time.Duration) {
	since = time.Duration(c.since.Load())
	switch waits := c.waits.Load(); {
	case waits == forRequest && !c.refused.Load():
		return Idle, since
	case waits == forRequest || waits == forOther && c.lingers.Load():
		return Refused, since
	case waits == forHead || waits == forRest:
		return ReadingHead, since
	}
	return Serving, since
}

// CloseUnused implements Conn.
func (c *clientConn) CloseUnused(state State) (closed bool) {
	switch state {
	case ReadingHead:
		closed = c.waits.CompareAndSwap(forHead, forNothing) || c.waits.CompareAndSwap(forRest, forNothing)
	case Idle, Refused:
		closed = c.waits.CompareAndSwap(forRequest, forNothing) || c.lingers.Load()
	}
	if closed {
		_ = c.Close()
	}
	return closed
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

// Write implements net.Conn for fasthttp, which writes an answer after each handler, even if Reply
// has already written one.
func (c *clientConn) Write(p []byte) (int, error) {
	if c.replied {
		return len(p), nil
	}
	return c.WriteWithin(p, c.flush)
}

// watched reports whether the hangup watcher watches c.
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

// end is called when c is closed and nothing more will be written to it. It also ends a tunnel that
// has not begun, since fasthttp drops hijackers if it cannot write the answer.
func (c *clientConn) end() {
	defer c.guard.clients.forget(c)
	if c.tunnel != nil {
		c.tunnel.end(net.ErrClosed)
	}
}

// closeWaiting closes c unless a request is in progress on it.
func (c *clientConn) closeWaiting() {
	for _, waits := range []int32{forRequest, forHead, forRest} { // in the order in which a request that begins meanwhile goes through them
		if c.waits.CompareAndSwap(waits, forNothing) {
			_ = c.Close()
			return
		}
	}
}

// A connSet holds the open connections of a server.
type connSet struct {
	set      Set[*clientConn]
	closing  atomic.Bool // connections without a request are closed
	once     sync.Once
	allEnded chan struct{} // closed when closing is set and the last connection has ended
}

func (r *connSet) add(c *clientConn, addr netip.Addr) {
	r.set.Add(c, addr)
	if r.closing.Load() {
		c.closeWaiting()
	}
}

func (r *connSet) forget(c *clientConn) {
	r.set.Remove(c)
	r.signalIfEnded()
}

// signalIfEnded closes allEnded if the server is closing and no connection is left.
func (r *connSet) signalIfEnded() {
	if r.closing.Load() && r.set.Len() == 0 {
		r.once.Do(func() { close(r.allEnded) })
	}
}

// wait waits until the last connection has ended, or returns ctx's error.
func (r *connSet) wait(ctx context.Context) error {
	select {
	case <-r.allEnded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// closeWaiting closes the connections without a request in progress, including those added later.
func (r *connSet) closeWaiting() {
	r.closing.Store(true)
	r.signalIfEnded()
	for _, c := range r.set.All() {
		c.closeWaiting()
	}
}

// cut resets all connections.
func (r *connSet) cut() {
	for _, c := range r.set.All() {
		tcp.Reset(c)
		_ = c.Close()
	}
}

// CloseWrite closes the write side of the connection.
func (c *clientConn) CloseWrite() error { return tcp.CloseWrite(c.Conn) }
