package transport

import (
	"bufio"
	"cmp"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport/http1"
	"sidenote/proxy/transport/tcp"
)

// ServerOptions are the settings of a Server. Zero values mean the defaults named beside
// them. Idle and Write may last a sixteenth longer, and Write twice as long, see
// timed.writeWithin.
type ServerOptions struct {
	Connections int           // open at once, see Set.MakeRoom; more get a 503. No more than a share of the descriptors, see tcp.SharesOf
	Addresses   *Addresses    // counts them by address; may be nil
	Reserve     bool          // for probes: has the share of an admin port, and a descriptor that is kept back for when no other is free
	HeadBytes   int           // of a request's head; a larger one gets a 431. 24 KiB; an open stream keeps that much memory
	Read        time.Duration // for the head of a request, from its first byte: 60 s
	Idle        time.Duration // of a kept-alive connection without a request: 120 s
	Write       time.Duration // after which a client that takes nothing is cut: 60 s
	// ErrorBody makes the JSON body of an error that the handler does not see: 400, 408,
	// 431, 500, 503 or 505, with a code for machines. Required.
	ErrorBody func(status int, code string) []byte
	// ErrorHead makes header lines for such an error. May be nil.
	ErrorHead func(code string) []Header
	// Panicked is called for panics: in the handler, for which the client gets a 500,
	// and in what runs beside and after it. May be nil.
	Panicked panics.Handler
	// Raw is nil for (*net.TCPConn).SyscallConn.
	Raw Raw
	// Shed is called with one of the Shed constants for each connection that
	// was refused or closed, and for each that could not be accepted. May be nil.
	Shed func(reason string)

	// How hang-ups are noticed where there is no hangup watcher; nil, but in tests, for
	// the system's best way.
	hungUp func(fd uintptr) bool
}

// NewServer returns a server that differs from fasthttp's defaults: bodies are streamed,
// and bounded by ReadBody only; heads with ambiguous framing are refused; a connection
// whose request body was not read whole is closed after the answer; nothing is logged,
// and no header lines are added.
//
// Header.Peek finds canonical names; what is relayed is the raw head.
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
	g.clients.set.Most, g.clients.set.Addresses, g.clients.allEnded = o.Connections, o.Addresses, make(chan struct{})
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

		// No timeouts: clientConn sets the deadlines of heads and Writes, ReadBody and
		// Do those of bodies.
		ReadBufferSize: o.HeadBytes,
		// Without this an answer would wait in a buffer while the client's next request
		// is served.
		ReduceMemoryUsage: true,

		StreamRequestBody:            true,
		MaxRequestBodySize:           math.MaxInt, // it would not bound streamed bodies; ReadBody does
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		SecureErrorLogMessage:        true,
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
	}}
}

// readExpectation puts the value of Expect into lower case, as fasthttp knows it only so.
// For an HTTP/1.0 client it removes Expect: such a client would take the interim answer
// for the answer (RFC 9110 §10.1.1).
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

// noLogger drops what fasthttp would log, as it quotes the heads of requests.
type noLogger struct{}

// Printf implements fasthttp.Logger.
func (noLogger) Printf(string, ...any) {}

// A guard is the inside of a Server. It checks each request before the handler and
// cleans up after it.
type guard struct {
	handler fasthttp.RequestHandler
	options ServerOptions
	states  sync.Pool // *requestState
	bodies  sync.Pool // *[]byte of maxKept or less: for the bodies of requests
	pieces  sync.Pool // *[]byte of pieceSize: for parts of bodies on their way to a client
	hangups tcp.HangupWatcher
	hungUp  func(fd uintptr) bool // asks the system about a connection that hangups does not watch
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
		if state.head.connected.Close { // fasthttp does not know each spelling of it
			ctx.SetConnectionClose()
		}
		g.call(ctx)
	}
	client.refused.Store(!client.replied && ctx.Response.StatusCode() >= fasthttp.StatusBadRequest)
	ends := state.reply.framing == replyUntilClose
	read := g.finish(ctx, client)
	switch {
	case ctx.Hijacked():
	case client.cut: // do not serve what else it has sent
		ctx.SetConnectionClose()
		tcp.Drain(client, arrived)
	case ends || !read || status != 0:
		g.closeAfterAnswer(ctx, client)
	}
}

// closeAfterAnswer answers, unless that is done, and reads what the client still sends,
// such as a body that nobody wants: it must not be read as a request, and would reset the
// connection, see lingerTime. The connection is closed after that.
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

// fail answers a request that met a panic.
func (g *guard) fail(ctx *fasthttp.RequestCtx) {
	clearResponse(&ctx.Response)
	g.errorAnswer(ctx, fasthttp.StatusInternalServerError)
	ctx.SetConnectionClose()
}

// clearResponse drops what a handler has set. Response.Reset would also bring
// fasthttp's own Date back.
func clearResponse(r *fasthttp.Response) {
	r.ResetBody()
	r.SkipBody, r.ImmediateHeaderFlush = false, false
	for _, name := range r.Header.PeekKeys() {
		r.Header.DelBytes(name)
	}
	r.Header.DelAllCookies()
	r.Header.SetStatusMessage(nil)
}

// finish ends what the handler left open, and reports whether nothing of the request's
// body is left on the connection.
func (g *guard) finish(ctx *fasthttp.RequestCtx, client *clientConn) (read bool) {
	state := client.state
	if state.watch != nil {
		state.watch.end()
	}
	read = bodyWasRead(ctx, state.bodyRead)
	client.freeBody()
	client.state = nil
	Buffer(state.reply.head)
	*state = requestState{head: Head{lines: state.head.lines[:0]}, reply: ReplyWriter{head: state.reply.head[:0]}}
	g.states.Put(state)
	return read
}

// arrived is how long what has arrived from a client is read where more is not waited for,
// see lingerTime: a reset would overtake the answer for a client that has closed its side
// only.
const arrived = 20 * time.Millisecond

// refuse answers if fasthttp could not read a request. The text of err is not used, as
// it may quote the head.
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
		// fasthttp closes right after the answer, which may cause a reset, see
		// lingerTime. Reading what has arrived by now is all that can be done here.
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

// checkHead reads the head of ctx's request and returns the status to refuse it with, or
// 0. fasthttp accepts heads after which two readers of a connection could see the end of
// the request in different places: a length beside an encoding, folded lines, bare line
// feeds.
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
