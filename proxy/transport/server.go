package transport

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

// ServerOptions are the settings of a Server. Zero values mean the defaults named beside them. Idle
// and Write may last a sixteenth longer, and Write twice as long, see tcp.Timed.WriteWithin.
type ServerOptions struct {
	Connections int           // open at once, see Set.MakeRoom; more get a 503. At most the server's share of descriptors, see tcp.SharesOf
	Addresses   *Addresses    // counts connections by client address; may be nil
	Reserve     bool          // for probes: use the share of an admin port, and keep a descriptor in reserve for when no other is free
	HeadBytes   int           // size limit of a request's head; larger ones get a 431. 24 KiB; each open stream uses that much memory
	Read        time.Duration // time for the head of a request, from its first byte: 60 s
	Idle        time.Duration // time of a kept-alive connection without a request: 120 s
	Write       time.Duration // time after which a client that takes nothing is cut: 60 s
	// ErrorBody returns the JSON body of an error that the handler does not see: 400, 408, 431,
	// 500, 503 or 505, with a machine-readable code. Required.
	ErrorBody func(status int, code string) []byte
	// ErrorHead returns header lines for such an error. May be nil.
	ErrorHead func(code string) []Header
	// Panicked is called for panics in the handler, for which the client gets a 500, and in
	// goroutines of the server. May be nil.
	Panicked panics.Handler
	// Raw opens raw connections; nil means (*net.TCPConn).SyscallConn.
	Raw Raw
	// Shed is called with one of the Shed constants for each connection that was refused or closed,
	// or could not be accepted. May be nil.
	Shed func(reason string)

	// hungUp checks for hang-ups where there is no hangup watcher; nil, except in tests, for the
	// system's best way.
	hungUp func(fd uintptr) bool
}

// NewServer returns a server that differs from fasthttp's defaults: bodies are streamed, and
// limited only by ReadBody; heads with ambiguous framing are refused; a connection whose request
// body was not fully read is closed after the answer; nothing is logged, and no header lines are
// added.
//
// Header.Peek needs canonical names; the head is relayed in its raw form.
func NewServer(handler fasthttp.RequestHandler, o ServerOptions) *Server {
	shares := tcp.SharesOf(tcp.DescriptorLimit())
	share := shares.Data
	if o.Reserve {
		share = shares.Admin
	}
	o.Connections = min(cmp.Or(o.Connections, share), share)
	o.HeadBytes = cmp.Or(o.HeadBytes, 24<<10)
	o.Read = cmp.Or(o.Read, time.Minute)
	o.Idle = cmp.Or(o.Idle, 2*time.Minute)
	o.Write = cmp.Or(o.Write, time.Minute)
	g := &guard{handler: handler, options: o, hangups: tcp.HangupWatcher{Panicked: o.Panicked}, hungUp: tcp.HungUp}
	if o.hungUp != nil {
		g.hungUp = o.hungUp
	}
	g.clients.set.MaxConnections, g.clients.set.Addresses, g.clients.allEnded = o.Connections, o.Addresses, make(chan struct{})
	g.states.New = func() any { return new(requestState) }
	g.bodies.New = func() any { return new([]byte) }
	g.pieces.New = func() any { b := make([]byte, pieceSize); return &b }
	return &Server{guard: g, http: &fasthttp.Server{
		Handler:      g.handle,
		ErrorHandler: g.refuse,
		Logger:       noLogger{},
		ConnState:    g.connState,
		Concurrency:  unlimited,

		HeaderReceived: readExpectation,

		// No timeouts: clientConn sets the deadlines of heads and Writes, ReadBody and Do those of
		// bodies.
		ReadBufferSize: o.HeadBytes,
		// Without this an answer would wait in a buffer while the client's next request is served.
		ReduceMemoryUsage: true,

		StreamRequestBody:            true,
		MaxRequestBodySize:           math.MaxInt, // it does not limit streamed bodies; ReadBody does
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		SecureErrorLogMessage:        true,
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
	}}
}

// readExpectation lower-cases the value of Expect, which fasthttp compares exactly. For HTTP/1.0
// clients it removes Expect, because they would mistake the interim answer for the answer (RFC 9110
// §10.1.1).
func readExpectation(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	switch value := h.Peek(fasthttp.HeaderExpect); {
	case len(value) == 0:
	case !h.IsHTTP11():
		h.Del(fasthttp.HeaderExpect)
	case http1.Is(value, "100-continue"):
		h.Set(fasthttp.HeaderExpect, "100-continue")
	}
	return fasthttp.RequestConfig{}
}

// noLogger discards fasthttp's log lines, which quote the heads of requests.
type noLogger struct{}

// Printf implements fasthttp.Logger.
func (noLogger) Printf(string, ...any) {}

// A guard is the core of a Server. It checks each request before the handler and cleans up after
// it.
type guard struct {
	handler fasthttp.RequestHandler
	options ServerOptions
	states  sync.Pool // *requestState
	bodies  sync.Pool // *[]byte of at most maxKept, for request bodies
	pieces  sync.Pool // *[]byte of pieceSize, for parts of bodies sent to a client
	hangups tcp.HangupWatcher
	hungUp  func(fd uintptr) bool // checks connections that hangups does not watch
	clients connSet
}

func (g *guard) handle(ctx *fasthttp.RequestCtx) {
	defer panics.Recover(g.options.Panicked, func() { g.fail(ctx) })
	client := clientOf(ctx)
	if client.waits.Swap(forOther) == forNothing { // closeWaiting has closed the connection
		ctx.SetConnectionClose()
		return
	}
	client.flush, client.cut = g.options.Write, false
	state := g.states.Get().(*requestState)
	client.state = state
	status := checkHead(ctx, client, &state.head)
	switch {
	case status != 0:
		g.errorAnswer(ctx, status)
	default:
		if state.head.connected.Close { // fasthttp does not recognize every spelling
			ctx.SetConnectionClose()
		}
		g.call(ctx)
	}
	client.refused.Store(!client.replied && ctx.Response.StatusCode() >= fasthttp.StatusBadRequest)
	ends := state.reply.framing == replyUntilClose
	read := g.finish(ctx, client)
	switch {
	case ctx.Hijacked():
	case client.cut: // ignore what else it has sent
		ctx.SetConnectionClose()
		tcp.Drain(client, arrived)
	case ends || !read || status != 0:
		g.closeAfterAnswer(ctx, client)
	}
}

// closeAfterAnswer sends the answer, if not yet done, and reads what the client still sends, such
// as an unread body: it must not be parsed as a request, and would cause a reset (see tcp.Linger).
// Then the connection is closed.
func (g *guard) closeAfterAnswer(ctx *fasthttp.RequestCtx, client *clientConn) {
	ctx.SetConnectionClose()
	if !client.replied {
		ctx.Response.SkipBody = ctx.IsHead()
		bw := bufio.NewWriterSize(client, readerSize)
		err := ctx.Response.Write(bw)
		client.cut = errors.Join(err, bw.Flush()) != nil
		client.replied = true
	}
	if !client.cut {
		client.lingers.Store(true)
		tcp.Linger(client)
	}
}

// call calls the handler and recovers its panic.
func (g *guard) call(ctx *fasthttp.RequestCtx) {
	defer panics.Recover(g.options.Panicked, func() { g.fail(ctx) })
	g.handler(ctx)
}

// fail answers a request whose handling panicked.
func (g *guard) fail(ctx *fasthttp.RequestCtx) {
	clearResponse(&ctx.Response)
	g.errorAnswer(ctx, fasthttp.StatusInternalServerError)
	ctx.SetConnectionClose()
}

// clearResponse discards what a handler has set. Response.Reset would also restore fasthttp's own
// Date.
func clearResponse(r *fasthttp.Response) {
	r.ResetBody()
	r.SkipBody, r.ImmediateHeaderFlush = false, false
	for _, name := range r.Header.PeekKeys() {
		r.Header.DelBytes(name)
	}
	r.Header.DelAllCookies()
	r.Header.SetStatusMessage(nil)
}

// finish ends what the handler left open, and reports whether the request's body was read from the
// connection to its end.
func (g *guard) finish(ctx *fasthttp.RequestCtx, client *clientConn) (read bool) {
	state := client.state
	if state.watch != nil {
		state.watch.end()
	}
	read = bodyWasRead(ctx, state.bodyRead)
	client.freeBody()
	client.state = nil
	PoisonBuffer(state.reply.head)
	*state = requestState{head: Head{lines: state.head.lines[:0]}, reply: ReplyWriter{head: state.reply.head[:0]}}
	g.states.Put(state)
	return read
}

// arrived is how long to read what a client has already sent: a reset could overtake the answer for
// a client that has closed only its own side, see tcp.Linger.
const arrived = 20 * time.Millisecond

// refuse answers if fasthttp could not read a request. It does not use the text of err, which may
// quote the head.
func (g *guard) refuse(ctx *fasthttp.RequestCtx, err error) {
	client := clientOf(ctx)
	client.waits.Store(forOther)
	if client.replied { // with a refusal
		ctx.SetConnectionClose()
		return
	}
	var small *fasthttp.ErrSmallBuffer
	var timeout interface{ Timeout() bool }
	status := fasthttp.StatusBadRequest
	switch {
	case errors.As(err, &small):
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		status = fasthttp.StatusRequestTimeout
	}
	g.errorAnswer(ctx, status)
	if status != fasthttp.StatusRequestTimeout {
		// fasthttp closes right after the answer, which may cause a reset, see tcp.Linger. All that
		// can be done here is to read what has arrived.
		tcp.Drain(ctx.Conn(), arrived)
	}
}

func (g *guard) errorAnswer(ctx *fasthttp.RequestCtx, status int) {
	code := "invalid_request"
	switch status {
	case fasthttp.StatusRequestHeaderFieldsTooLarge:
		code = "headers_too_large"
	case fasthttp.StatusRequestTimeout:
		code = "request_timeout"
	case fasthttp.StatusInternalServerError:
		code = "internal_error"
	case fasthttp.StatusHTTPVersionNotSupported:
		code = "http_version"
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	for _, line := range g.errorHead(code) {
		ctx.Response.Header.Set(line.Name, line.Value)
	}
	ctx.SetBody(g.options.ErrorBody(status, code))
}

func (g *guard) errorHead(code string) []Header {
	if g.options.ErrorHead == nil {
		return nil
	}
	return g.options.ErrorHead(code)
}

// checkHead parses the head of ctx's request and returns the status to refuse it with, or 0.
// fasthttp accepts heads from which two readers could conclude different ends of the request: a
// length together with an encoding, folded lines, bare line feeds.
func checkHead(ctx *fasthttp.RequestCtx, client *clientConn, into *Head) (status int) {
	h := &ctx.Request.Header
	if p := string(h.Protocol()); p != "HTTP/1.1" && p != "HTTP/1.0" {
		return fasthttp.StatusHTTPVersionNotSupported
	}
	into.client, into.method, into.target, into.length, into.http11 = client, h.Method(), h.RequestURI(), h.ContentLength(), h.IsHTTP11()
	if !into.read(h.RawHeaders()) || client.head.Bare {
		return fasthttp.StatusBadRequest
	}
	return 0
}

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
		return "Too many connections from your address (max_connections_per_address); close some or reuse open ones."
	}
	return "Sidenote has reached its connection limit; try again later."
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
