package transport

import (
	"cmp"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
)

// ServerOptions are what differs between our listeners. Zero values mean the
// defaults named beside them. Idle and Write may last a sixteenth longer, and
// Write twice as long, see timed.writeWithin.
type ServerOptions struct {
	Connections int           // open at once, beyond it 503: 16,384, or what half of the descriptors allow
	HeadBytes   int           // of a request's head, beyond it 431: 24 KiB, which an open stream holds
	Read        time.Duration // head of a request, from its first byte: 60 s
	Idle        time.Duration // a kept-alive connection without a request: 120 s
	Write       time.Duration // a flush in which the client takes nothing: 60 s
	// ErrorBody makes the JSON body for an error that never reaches the handler:
	// 400, 408, 431, 500, 503 or 505, with a code for machines. Required.
	ErrorBody func(status int, code string) []byte
	// ErrorHead makes head lines of such an error. May be nil.
	ErrorHead func(code string) []Header
	// Panicked hears of panics: in the handler, for which the client gets a 500, and
	// in what goes on beside it and after it. May be nil.
	Panicked panics.Handler
	// Raw is nil for (*net.TCPConn).SyscallConn.
	Raw Raw
	// Shed hears of each connection that was refused for want of "connections",
	// and of each attempt to accept one that failed for want of "descriptors".
	// May be nil.
	Shed func(reason string)
}

// NewServer returns a server with the traps of fasthttp closed: bodies are
// streamed and bounded by ReadBody only, heads with ambiguous framing are
// refused, a connection whose request body was not read whole is closed after
// the answer, nothing is logged or invented.
//
// Header names read with Peek are canonical; what is relayed is the raw head.
func NewServer(handler fasthttp.RequestHandler, o ServerOptions) *Server {
	o.Connections = cmp.Or(o.Connections, connections())
	o.HeadBytes = cmp.Or(o.HeadBytes, 24<<10)
	o.Read = cmp.Or(o.Read, time.Minute)
	o.Idle = cmp.Or(o.Idle, 2*time.Minute)
	o.Write = cmp.Or(o.Write, time.Minute)
	g := &guard{handler: handler, options: o, hangups: hangupWatcher{panicked: o.Panicked}}
	g.clients.clients, g.clients.none = map[*clientConn]struct{}{}, make(chan struct{})
	g.states.New = func() any { return new(requestState) }
	return &Server{guard: g, http: &fasthttp.Server{
		Handler:      g.handle,
		ErrorHandler: g.refuse,
		Logger:       noLogger{},
		ConnState:    g.follow,
		Concurrency:  unlimited,

		HeaderReceived: readExpectation,

		// No timeouts: clientConn has those of heads and of Writes, ReadBody and
		// Send set the deadlines of bodies.
		ReadBufferSize: o.HeadBytes,
		// Or an answer waits in a buffer while the next request of its client is served.
		ReduceMemoryUsage: true,

		StreamRequestBody:            true,
		MaxRequestBodySize:           math.MaxInt, // has no effect on streams but trouble
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		SecureErrorLogMessage:        true,
		NoDefaultServerHeader:        true,
		NoDefaultDate:                true,
		NoDefaultContentType:         true,
	}}
}

// readExpectation makes an expectation one that fasthttp knows, in whatever letter
// case it is, and none of what an old client says: it would take the interim answer
// for the answer (RFC 9110 §10.1.1).
func readExpectation(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	switch value := h.Peek(fasthttp.HeaderExpect); {
	case len(value) == 0:
	case !h.IsHTTP11():
		h.Del(fasthttp.HeaderExpect)
	case is(value, "100-continue"):
		h.Set(fasthttp.HeaderExpect, "100-continue")
	}
	return fasthttp.RequestConfig{}
}

// noLogger drops what fasthttp would log: its texts quote request heads.
type noLogger struct{}

// Printf implements fasthttp.Logger.
func (noLogger) Printf(string, ...any) {}

// A guard stands around a handler.
type guard struct {
	handler fasthttp.RequestHandler
	options ServerOptions
	states  sync.Pool // *requestState
	hangups hangupWatcher
	clients connSet
}

func (g *guard) handle(ctx *fasthttp.RequestCtx) {
	defer panics.Recover(g.options.Panicked, func() { g.fail(ctx) })
	client := clientOf(ctx)
	if client.waits.Swap(forOther) == forNothing { // nobody would read the answer
		ctx.SetConnectionClose()
		return
	}
	client.flush = g.options.Write
	state := g.states.Get().(*requestState)
	client.state = state
	status := checkHead(&ctx.Request.Header, &state.head)
	if status == 0 && client.head.bare {
		status = fasthttp.StatusBadRequest
	}
	switch {
	case status != 0:
		g.answer(ctx, status)
		hijackResponse(ctx)
		return
	case state.head.connected.close: // in a spelling that fasthttp does not see
		ctx.SetConnectionClose()
	}
	g.call(ctx)
	read := g.finish(ctx, client)
	if !ctx.Hijacked() && !read { // whatever follows on this connection is not a request
		hijackResponse(ctx)
	}
}

// call calls the handler and survives its panic.
func (g *guard) call(ctx *fasthttp.RequestCtx) {
	defer panics.Recover(g.options.Panicked, func() { g.fail(ctx) })
	g.handler(ctx)
}

// fail answers a request that met a panic.
func (g *guard) fail(ctx *fasthttp.RequestCtx) {
	clearResponse(&ctx.Response)
	g.answer(ctx, fasthttp.StatusInternalServerError)
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

// finish ends what the handler left open, and reports whether nothing of the
// request's body is left on the connection.
func (g *guard) finish(ctx *fasthttp.RequestCtx, client *clientConn) (read bool) {
	state := client.state
	client.exchange.abandon() // a Response that was neither relayed nor discarded, or a panic before
	read = bodyWasRead(ctx, state.bodyRead)
	client.state = nil
	if !state.lent && cap(state.body) <= maxKept {
		Poison(state.body)
		*state = requestState{body: state.body[:0], head: requestLines{lines: state.head.lines[:0]}}
		g.states.Put(state)
	}
	return read
}

// refuse answers what fasthttp could not read as a request. err's own text
// stays unread, for it may quote the head.
func (g *guard) refuse(ctx *fasthttp.RequestCtx, err error) {
	clientOf(ctx).waits.Store(forOther)
	var small *fasthttp.ErrSmallBuffer
	var timeout interface{ Timeout() bool }
	status := fasthttp.StatusBadRequest
	switch {
	case errors.As(err, &small):
		status = fasthttp.StatusRequestHeaderFieldsTooLarge
	case errors.As(err, &timeout) && timeout.Timeout():
		status = fasthttp.StatusRequestTimeout
	}
	g.answer(ctx, status)
	if status != fasthttp.StatusRequestTimeout {
		// fasthttp closes right after the answer, see lingering. What has
		// arrived by now is all that can be helped from here.
		drain(ctx.Conn(), 20*time.Millisecond)
	}
}

func (g *guard) answer(ctx *fasthttp.RequestCtx, status int) {
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

// checkHead reads the lines of a head and returns the status that refuses it, or 0.
// fasthttp lets pass what two readers of one connection could split differently: a
// length beside an encoding, folded lines, bare line feeds.
func checkHead(h *fasthttp.RequestHeader, into *requestLines) (status int) {
	if p := string(h.Protocol()); p != "HTTP/1.1" && p != "HTTP/1.0" {
		return fasthttp.StatusHTTPVersionNotSupported
	}
	if !into.read(h.RawHeaders()) {
		return fasthttp.StatusBadRequest
	}
	return 0
}
