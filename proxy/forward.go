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

// errClientGone stands in for an answer where nobody is left to take one, and
// errPanic for what a panic said, which only the log may show.
var (
	errClientGone = errors.New("the client left")
	errPanic      = errors.New("panic")
)

// send forwards a chat request whose whole body was read, with its edits made. One
// that came compressed goes up as it came if there are none.
func (x *exchange) send(ctx *fasthttp.RequestCtx, body []byte, edits []rewrite.Edit) error {
	x.plain = rewrite.Pieces(x.plain[:0], body, edits)
	r := transport.Request{Body: x.plain, Whole: true, Replace: x.upstream.replace, NoUpgrade: true}
	r.Same = len(edits) == 0
	switch {
	case x.packed == nil:
	case r.Same:
		r.Body = [][]byte{x.packed}
	default:
		r.Replace = append(slices.Clip(r.Replace), transport.Header{Name: fasthttp.HeaderContentEncoding})
	}
	return x.forward(ctx, r)
}

// forward sends the request up and lets the answer flow back. It returns an
// error only where the client has seen nothing yet.
func (x *exchange) forward(ctx *fasthttp.RequestCtx, r transport.Request) error {
	r.Without = KeyPrefix
	x.report.Overhead = max(time.Since(x.report.Time)-x.read, 1)
	resp, err := x.upstream.client.Send(ctx, r)
	if x.retry.req != nil {
		if err == nil {
			resp, err = x.sendAgain(ctx, resp, r)
		}
		x.retry = retry{}
	}
	if err != nil {
		return x.sendError(err)
	}
	x.report.TTFB = time.Since(x.report.Time)
	x.report.Status, x.report.UpstreamStatus = resp.Status(), resp.Status()
	if bytes.HasPrefix(resp.Header("Content-Type"), []byte("text/event-stream")) {
		x.streaming = true
		x.server.metrics.BeginStream()
	}
	how := transport.Relay{Replace: x.lines(), Done: x.whenDone}
	if x.sampled {
		x.listen(resp, &how)
	}
	if resp.Sent() { // a stream may be open for minutes
		x.dropBody()
	}
	resp.Relay(ctx, how)
	return nil
}

// lines are the head lines of ours on an upstream's answer: on a generation
// route what became of the request, or its id alone if the upstream refuses it, as
// whoever sent it may not be one to learn what was found. Elsewhere there is nothing,
// and never the upstream's own lines of these names.
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

// sendError says what an error of package transport means for the client.
func (x *exchange) sendError(err error) error {
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

// refuse answers with an error of ours.
func (x *exchange) refuse(ctx *fasthttp.RequestCtx, e *Error) {
	r := &x.report
	if errors.Is(e, errClientGone) {
		r.Status, r.Client = statusClientGone, ClientGoneFirst
		if x.server.base.Err() != nil { // we closed its connection
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

// done ends the account of an answer that flowed; the handler has returned.
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

// end closes the answer's side of the account, once.
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
	x.leave()
	s.open.Add(-1)
	s.work.Done()
}

// dropBody lets go of the body's pieces and of what was read from it.
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
	clear(x.plain)
	x.plain = x.plain[:0]
}

// leave records the Report when the answer and the shadow work have both ended.
// It runs where no caller would survive a panic, and before the request is
// counted out: a recorder that breaks must cost its record only.
func (x *exchange) leave() {
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
