package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

const statusClientGone = 499 // nginx's status for a client that left before the answer

// errClientGone ends a request whose client has left, so that no answer is written. errPanic
// replaces a panic, whose text is only logged.
var (
	errClientGone = errors.New("the client left")
	errPanic      = errors.New("panic")
)

// An exchange is one request and its answer, shared by the steps of Handle. It is reused
// for another request once all references to it are released.
type exchange struct {
	request
	account
	chatRequest
}

// Handle serves one request.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {
	x, _ := s.exchanges.Get().(*exchange)
	if x == nil {
		x = newExchange()
	}
	x.account.begin(s, ctx.Time()) // ctx.Time is when this call of the handler began
	defer func() {
		if !x.switched {
			x.end()
		}
	}()
	defer panics.Recover(x.panicked, func() { x.refuse(tenant.AsError(errPanic)) })
	x.request.begin(s, ctx)
	x.report.Route, x.report.Address = x.target.Route, x.setup.tenants.AddressOf(ctx)
	if err := x.serve(); err != nil {
		x.refuse(tenant.AsError(err))
	}
}

// maxStageBody is the largest buffer for the requests of stages, in bytes, that is reused.
const maxStageBody = 64 << 10

func newExchange() *exchange {
	x := new(exchange)
	x.kept = kept{whenDone: x.done, panicked: x.Panicked, onChunk: x.tap, statusHeaders: x.tell}
	return x
}

// done is called with the outcome when the answer has ended.
func (x *exchange) done(o transport.Outcome) {
	x.settle(o)
	if x.switched {
		x.end()
	}
}

// end ends the request. Every request ends here.
func (x *exchange) end() {
	s := x.server
	x.freeBody()
	x.finish()
	x.readAndRelease()
	s.work.Done()
}

// release drops one reference to x. The last one records the Report and clears x, so that nothing
// of this request stays in memory; its chatRequest is already cleared.
func (x *exchange) release() {
	if x.refs.Add(-1) > 0 {
		return
	}
	x.record()
	pool, kept := &x.server.exchanges, x.kept
	x.request, x.account = request{}, account{} // zero values: a literal with fields would be built elsewhere and copied
	if cap(kept.stageBody) > maxStageBody {
		kept.stageBody = nil
	}
	x.kept = kept
	pool.Put(x)
}

// freeBody frees the body, what was parsed from it, and the memory reserved for it.
func (x *exchange) freeBody() {
	x.chatRequest.free(x.server)
	x.giveBack()
}

// serve relays or answers the request. If it returns an error, nothing was sent and the error is
// the answer.
func (x *exchange) serve() error {
	if err := x.server.admit(&x.request, x.report.Time); err != nil {
		return err
	}
	if method := preflighted(&x.ctx.Request.Header); len(method) > 0 {
		return x.preflight(method)
	}
	if err := x.identify(); err != nil {
		return err
	}
	if x.target.Route != route.Chat {
		return x.relay()
	}
	return x.serveChat()
}

// relay forwards a request that Sidenote does not rewrite.
func (x *exchange) relay() error {
	if x.target.Route.Generates() {
		x.report.Outcome, x.report.Reason = rewrite.Untouched, rewrite.ReasonRoute
	}
	if x.policy.Metered && meteredRouteOf(x.target.Route) != rewrite.MeteredOther {
		return x.relayMetered()
	}
	call := transport.Call{Replace: x.replacements()}
	if x.policy.Models != nil {
		if err := x.checkRelayedModels(&call); err != nil {
			return err
		}
	}
	if err := x.reserveRelayed(nil); err != nil {
		return err
	}
	return x.forward(call)
}

// forward sends the request to the upstream and relays the answer. It returns an error only if
// nothing was sent to the client yet.
func (x *exchange) forward(r transport.Call) error {
	r.Head, r.Without, r.Interim = x.head, tenant.KeyPrefix, true
	began := time.Now()
	x.report.Overhead = max(began.Sub(x.report.Time)-x.readTook, 1)
	answer, err := x.call(r, report.ToAnswer, began)
	if err == nil {
		answer, err = x.sendAgain(answer, &r)
	}
	if err != nil {
		x.spending.Failed(err)
		return x.server.callError(err)
	}
	if answer == nil {
		return nil
	}
	x.readAlong(answer)
	if x.sampled && x.reader != nil {
		x.sample = x.server.samples.Take(x.outgoing)
	}
	if x.tools != nil && answer.Status() == fasthttp.StatusOK {
		return x.converse(answer, r)
	}
	if x.staging != nil {
		if body, ok := x.staging.Added(answer); ok {
			x.relayInstead(answer, body)
			return nil
		}
	}
	how := x.howOf(answer)
	if answer.Sent() { // a stream may be open for minutes, so free the body now
		x.freeBody()
	}
	x.checker.Relay(answer, &how, x)
	status := answer.Status()
	answer.Relay(x.ctx, how)
	x.switched = status == fasthttp.StatusSwitchingProtocols
	return nil
}

// howOf returns how to relay an answer to the client, and records its status and time to first
// byte.
func (x *exchange) howOf(answer *transport.Answer) transport.Relay {
	x.report.TTFB, x.report.Status = time.Since(x.report.Time), answer.Status()
	if isStream(answer) {
		x.beginStream()
	}
	how := transport.Relay{Replace: ours, AppendHeaders: x.statusHeaders, Done: x.whenDone}
	if x.reader != nil {
		how.OnPiece = x.onChunk
	}
	x.hideUsage(answer, &how)
	return how
}

// call makes one call to the request's upstream and reports it. now is the current time.
func (x *exchange) call(r transport.Call, why report.Purpose, now time.Time) (*transport.Answer, error) {
	return x.callOn(x.life, x.upstream, r, why, now)
}

// callOn makes one call to the given upstream and reports it.
func (x *exchange) callOn(ctx context.Context, to *backend, r transport.Call, why report.Purpose, now time.Time) (*transport.Answer, error) {
	answer, err := to.client.Do(ctx, r)
	c := report.Call{Upstream: to.name, Purpose: why, Took: time.Since(now)}
	if err == nil {
		c.Status = answer.Status()
	}
	x.report.Calls = append(x.report.Calls, c)
	return answer, err
}

// refuse answers with e, or with nothing if the client has left.
func (x *exchange) refuse(e *tenant.APIError) {
	r, ctx := &x.report, x.ctx
	if errors.Is(e, errClientGone) {
		r.Status, r.Client = statusClientGone, report.ClientGoneFirst
		if x.server.base.Err() != nil { // Shutdown closed the client's connection
			r.Client, r.Reason = report.ClientCutShutdown, report.ReasonShutdown
		}
		ctx.Response.Reset()
		ctx.Response.SetStatusCode(statusClientGone)
		ctx.SetConnectionClose()
		return
	}
	r.Status = e.Status()
	x.noteError(e)
	e.Write(ctx)
	ctx.Response.Header.Set(report.HeaderID, r.ID)
	ctx.Response.Header.SetBytesV(report.HeaderStatus, report.AppendStatus(nil, r))
}

// noteError records that the client gets e instead of an answer, and logs errors for operators.
func (x *exchange) noteError(e *tenant.APIError) {
	r := &x.report
	r.Reason, r.Outcome = e.Reason, rewrite.Refused
	switch e.Reason {
	case report.ReasonUpstreamBroken, report.ReasonUpstreamConnect, report.ReasonUpstreamTimeout, report.ReasonStage, report.ReasonStageTimeout, report.ReasonInternal:
		r.Outcome = report.Failed
		x.server.log.Warn("request failed", "id", r.ID, "upstream", r.Upstream, "error", e)
	case report.ReasonLedger:
		if !errors.Is(e, budget.ErrSkipped) { // while Redis is bypassed, that is logged once elsewhere
			x.server.log.Warn("request refused", "id", r.ID, "tenant", r.Tenant, "error", e)
		}
	}
}
