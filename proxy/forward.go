package proxy

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// errClientGone ends a request whose client has left, so that no answer is written.
// errPanic stands for a panic: its text is shown in the log only.
var (
	errClientGone = errors.New("the client left")
	errPanic      = errors.New("panic")
)

// send makes the edits and forwards a chat request whose whole body was read. A
// compressed body without edits is forwarded as it came, still compressed.
func (x *exchange) send(ctx *fasthttp.RequestCtx, body []byte, edits []rewrite.Edit) error {
	x.outgoing = rewrite.Pieces(x.outgoing[:0], body, edits)
	r := transport.Call{Body: x.outgoing, Whole: true, Replace: x.upstream.replace, NoUpgrade: true}
	r.Same = len(edits) == 0
	switch {
	case x.compressed == nil:
	case r.Same:
		r.Body = [][]byte{x.compressed}
	default:
		r.Replace = append(slices.Clip(r.Replace), transport.Header{Name: fasthttp.HeaderContentEncoding})
	}
	return x.forward(ctx, r)
}

// forward sends the request to the upstream and relays the answer. It returns an
// error only if nothing was sent to the client yet.
func (x *exchange) forward(ctx *fasthttp.RequestCtx, r transport.Call) error {
	r.Head, r.Without = transport.Capture(ctx), KeyPrefix
	life := transport.Watch(ctx, x.server.base)
	x.report.Overhead = max(time.Since(x.report.Time)-x.readTook, 1)
	resp, err := x.upstream.client.Do(life, r)
	if x.retry.req != nil {
		if err == nil {
			resp, err = x.retryIfTooLong(life, resp, r)
		}
		x.retry = retry{}
	}
	if err != nil {
		return x.transportError(err)
	}
	x.report.TTFB = time.Since(x.report.Time)
	x.report.Status, x.report.UpstreamStatus = resp.Status(), resp.Status()
	if bytes.HasPrefix(resp.Header("Content-Type"), []byte("text/event-stream")) {
		x.streaming = true
		x.server.metrics.BeginStream()
	}
	how := transport.Relay{Replace: x.lines(), Done: x.whenDone}
	if x.sampled {
		x.takeSample(resp, &how)
	}
	if resp.Sent() { // free the body now: a stream may be open for minutes
		x.dropBody()
	}
	resp.Relay(ctx, how)
	return nil
}

// lines returns Sidenote's header lines for an upstream's answer. On a generation
// route they say what became of the request; if the upstream refused it they hold the
// id alone, as the caller may not be allowed to know what was found. On other routes
// there are none. The upstream's own lines of these names are always removed.
func (x *exchange) lines() []transport.Header {
	x.head = [...]transport.Header{{Name: HeaderID}, {Name: HeaderStatus}, {Name: HeaderSources}}
	h := x.head[:]
	if x.report.Outcome == Relayed {
		return h
	}
	h[0].Value = x.report.ID
	if x.report.UpstreamStatus/100 != 2 {
		return h
	}
	values := AppendStatus(make([]byte, 0, 768), &x.report)
	status := len(values)
	if x.report.Outcome == rewrite.Injected {
		values = AppendSources(values, x.report.Rewrite.Ledger.Sources, x.report.Expose)
	}
	both := string(values)
	h[1].Value, h[2].Value = both[:status], both[status:]
	return h
}

// transportError returns the error that the client gets for an error of package
// transport.
func (x *exchange) transportError(err error) error {
	e := &Error{Err: err, Reason: ReasonUpstreamBroken, Message: "The upstream broke off before it answered; whether it did the work is not known."}
	switch transport.ClassOf(err) {
	case transport.ClientGone, transport.ClientSlow:
		return errClientGone
	case transport.Internal:
		return errPanic
	case transport.NoRoom:
		return x.server.noRoom()
	case transport.ClientLate:
		e.Reason, e.Message = ReasonBodySlow, "The body of the request came too slowly; try again."
	case transport.ClientBody:
		e.Reason, e.Message = ReasonBodyRead, "The body of the request did not arrive whole."
	case transport.BadTarget:
		e.Reason, e.Message = ReasonPath, "The request target cannot be forwarded."
	case transport.ConnectFailed:
		e.Reason, e.Message = ReasonUpstreamConnect, "The upstream could not be reached; nothing was sent to it."
	case transport.TLSFailed:
		e.Reason, e.Message = ReasonUpstreamConnect, "The upstream's TLS could not be verified; nothing was sent to it."
	case transport.ConnectTimeout:
		e.Reason, e.Message = ReasonUpstreamTimeout, "The upstream took too long to connect to; nothing was sent to it."
	case transport.FirstByteTimeout, transport.IdleTimeout:
		e.Reason, e.Message = ReasonUpstreamTimeout, "The upstream did not answer in time; whether it did the work is not known."
	case transport.BadResponse:
		e.Message = "The upstream's answer could not be read as HTTP."
	case transport.Closed:
		e.Reason, e.Message = ReasonShutdown, "Sidenote is shutting down; try again."
	}
	return e
}

// refuse answers with e, or with nothing if the client has left.
func (x *exchange) refuse(ctx *fasthttp.RequestCtx, e *Error) {
	r := &x.report
	if errors.Is(e, errClientGone) {
		r.Status, r.Client = statusClientGone, ClientGoneFirst
		if x.server.base.Err() != nil { // Shutdown closed the client's connection
			r.Client, r.Reason = ClientCutShutdown, ReasonShutdown
		}
		ctx.Response.Reset()
		ctx.Response.SetStatusCode(statusClientGone)
		ctx.SetConnectionClose()
		x.end()
		return
	}
	r.Status, r.Reason, r.Outcome = e.Status(), e.Reason, rewrite.Refused
	switch e.Reason {
	case ReasonUpstreamBroken, ReasonUpstreamConnect, ReasonUpstreamTimeout, ReasonInternal:
		r.Outcome = Failed
		x.server.log.Warn("request failed", "id", r.ID, "upstream", r.Upstream, "error", e)
	}
	e.Write(ctx)
	ctx.Response.Header.Set(HeaderID, r.ID)
	ctx.Response.Header.SetBytesV(HeaderStatus, AppendStatus(nil, r))
	x.end()
}

// done ends the request when its answer has been relayed, or has broken. It runs after
// the handler has returned.
func (x *exchange) done(o transport.Outcome) {
	switch transport.ClassOf(o.Err) {
	case "":
	case transport.ClientGone, transport.ClientSlow, transport.ClientBody, transport.ClientLate:
		x.report.Client = ClientGoneStreaming
	case transport.Closed:
		x.report.Client, x.report.Reason = ClientCutShutdown, ReasonShutdown
	case transport.Internal:
		x.report.Outcome, x.report.Reason = Failed, ReasonInternal
	default:
		x.report.Client, x.report.Truncated = ClientCutUpstream, true
	}
	x.end()
}

// end counts the request out and records it when its answer is over. Only the first
// call does anything.
func (x *exchange) end() {
	if !x.ended.CompareAndSwap(false, true) {
		return
	}
	s := x.server
	x.learn()
	x.report.Total = time.Since(x.report.Time)
	if x.streaming {
		s.metrics.EndStream()
	}
	s.metrics.End()
	x.recordIfLast()
	s.openRequests.Add(-1)
	s.work.Done()
}

// dropBody frees the body, what was parsed of it, and the memory counted for it.
func (x *exchange) dropBody() {
	if x.parser != nil {
		x.parser.Reset()
		x.server.parsers.Put(x.parser)
		x.parser = nil
	}
	if x.held > 0 {
		x.server.memory.give(x.held)
		x.held = 0
	}
	clear(x.outgoing)
	x.outgoing = x.outgoing[:0]
}

// recordIfLast is called at the end of the answer and at the end of shadow work. The
// last call records the Report. No caller would recover a panic, and the request is
// counted out only after the call, so a recorder that panics is stopped here: it costs
// its record and nothing else.
func (x *exchange) recordIfLast() {
	if x.pending.Add(-1) > 0 {
		return
	}
	defer x.release()
	defer panics.Recover(x.panicked, nil)
	if x.shadow != nil {
		x.report.Rewrite = *x.shadow
		if x.report.Reason == "" {
			x.report.Reason = x.shadow.Reason
		}
	}
	x.server.records.Record(&x.report)
}
