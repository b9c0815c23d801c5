package proxy

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/record"
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
		if !x.upgraded {
			x.end()
		}
	}()
	defer panics.Recover(x.panicked, func() { x.refuse(tenant.AsError(errPanic)) })
	x.request.begin(s, ctx)
	x.report.Route, x.report.Address = x.target.Route, x.setup.tenants.AddressOf(ctx)
	x.beginTrace()
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
	if x.upgraded {
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
	if x.isFeedback() {
		return x.takeFeedback()
	}
	if !x.target.Route.Rewritten() || x.signed() {
		return x.relay()
	}
	return x.serveChat()
}

// signed reports whether a request has a signature of AWS, which covers its body.
func (x *exchange) signed() bool {
	return x.target.Route == route.Messages && strings.HasPrefix(x.headerValue(fasthttp.HeaderAuthorization), "AWS4-")
}

// relay forwards a request that Sidenote does not rewrite.
func (x *exchange) relay() error {
	if x.target.Route.Generates() || x.target.Route == route.Stored || x.signed() {
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
	x.collectAnswer(answer)
	x.watchCache()
	x.keepGiven(answer.Status())
	if x.sampled && x.reader != nil {
		x.sample = x.server.samples.Take(x.outgoing)
		x.count = x.tokenCount()
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
	x.upgraded = status == fasthttp.StatusSwitchingProtocols
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
	x.beginCall(to, &r, why)
	answer, err := to.client.Do(ctx, r)
	c := report.Call{Upstream: to.name, Purpose: why, Began: now, Took: time.Since(now)}
	if err == nil {
		c.Status, c.RequestID = answer.Status(), requestIDOf(answer)
	} else {
		noteFault(&c, err)
	}
	x.answered(&c, err)
	x.report.Calls = append(x.report.Calls, c)
	return answer, err
}

// noteFault records an error of a call if the upstream is at fault.
func noteFault(c *report.Call, err error) {
	if class := transport.ClassOf(err); class.Upstream() {
		c.Error, c.Limit = string(class), transport.LimitOf(err)
	}
}

// requestIDOf returns the id that an upstream gave its answer: OpenAI's, Anthropic's, Azure's or
// Bedrock's; "" if there is none.
func requestIDOf(answer *transport.Answer) string {
	for _, name := range [...]string{"x-request-id", "request-id", "apim-request-id", "x-amzn-requestid"} {
		if id := answer.Header(name); len(id) > 0 {
			return report.ReadRequestID(id)
		}
	}
	return ""
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
	e.Write(ctx, r.Route.API(), r.IDs())
	ctx.Response.Header.Set(report.HeaderID, r.ID)
	ctx.Response.Header.SetBytesV(report.HeaderStatus, report.AppendStatus(nil, r))
}

// noteError records that the client gets e instead of an answer, and logs errors for operators.
func (x *exchange) noteError(e *tenant.APIError) {
	r := &x.report
	r.Reason, r.Outcome = e.Reason, rewrite.Refused
	switch e.Reason {
	case report.ReasonUpstreamBroken, report.ReasonUpstreamConnect, report.ReasonConnectTimeout, report.ReasonUpstreamTimeout, report.ReasonStage, report.ReasonStageTimeout, report.ReasonInternal:
		r.Outcome = report.Failed
		x.server.log.Warn("request failed", "id", r.ID, "upstream", r.Upstream, "error", e)
	case report.ReasonLedger:
		if !errors.Is(e, budget.ErrSkipped) { // while Redis is bypassed, that is logged once elsewhere
			x.server.log.Warn("request refused", "id", r.ID, "tenant", r.Tenant, "error", e)
		}
	}
}

// An account owns a request's Report and the slots and memory that the request holds, from its
// first byte until it is recorded. It ends the request.
type account struct {
	server        *Server
	report        report.Report
	calls         [1]report.Call  // backing array of report.Calls in the usual case
	readTook      time.Duration   // from report.Time until the request was read, including its body if that is buffered
	reservedBytes int             // bytes taken from server.memory for the body
	shadow        *rewrite.Result // the result of shadow work, when it is done
	draft         *record.Draft   // what is recorded of the request; nil if it is not recorded
	refs          atomic.Int32    // references of the answer and shadow work; the last one to end records the Report
	settlement
	reading
	spans
	kept
}

// A settlement holds what charging a request's calls takes.
type settlement struct {
	terms    *budget.Terms       // of the tenant; nil until it is known
	spending *spending           // the budget reservation; nil if nothing is limited
	model    string              // model that the chat names
	tier     string              // service_tier of the request
	counter  answer.UsageCounter // counts the text of a metered answer without usage; nil: not counted
	before   report.Rounds       // usage of the rounds before the last one
}

// A reading holds what is read from an answer while it is relayed.
type reading struct {
	streaming    bool                // the answer is a stream
	untold       int                 // bytes of the stream that may still be searched for its first token; 0: none
	upgraded     bool                // the connection switches to another protocol when the handler has returned
	reader       *answer.UsageReader // reads the usage of the answer; nil if the answer has none
	usageSkipped bool                // do not use reader: it panicked, or there is no time for it
	text         *answer.AnswerText  // reads the text of the answer; nil if it is not kept
	ownAnswer    *answer.Text        // the answer that Sidenote wrote itself, if it is kept
	checker      *citationStage      // checks the answer's citations; nil if they are not checked
	diagnosis    *diagnosis          // asked of the upstream; nil if none is
	chain        *chainTurn          // this turn of a conversation that the upstream holds; nil if it is not kept
	sample       *sample             // the request, for learn; nil if it is not sampled
	count        *tokenCount         // asks the upstream for the tokens of sample; nil if its bill says them
	watch        cacheWatch
}

// A kept is what an exchange keeps from one request to the next: method values, so that they are
// allocated once, and a buffer.
type kept struct {
	whenDone      func(transport.Outcome) // exchange.done
	panicked      panics.Handler          // account.Panicked
	onChunk       func(piece []byte)      // account.tap
	statusHeaders func([]byte) []byte     // account.tell
	stageBody     []byte                  // buffer for the requests of stages
}

// begin initialises a for a request and counts it as open.
func (a *account) begin(s *Server, now time.Time) {
	a.server = s
	r := &a.report
	r.ID, r.Time, r.Outcome, r.Client = report.NewID(now), now, report.Relayed, report.ClientCompleted
	r.Calls = a.calls[:0]
	a.refs.Store(1)
	s.metrics.Begin()
	s.openRequests.Add(1)
	s.work.Add(1)
}

// Panicked reports a panic that happened in this request. It implements RoundsHost.
func (a *account) Panicked(value any, stack []byte) { a.server.bug(a.report.ID, value, stack) }

// beginStream marks the answer as a stream and counts it.
func (a *account) beginStream() {
	a.streaming = true
	a.server.metrics.BeginStream()
}

// Take implements transport.BodyMemory. giveBack releases all bytes that Take reserved.
func (a *account) Take(n int) bool {
	if !a.server.memory.Take(n) {
		return false
	}
	a.reservedBytes += n
	return true
}

func (a *account) giveBack() {
	if a.reservedBytes > 0 {
		a.server.memory.Give(a.reservedBytes)
		a.reservedBytes = 0
	}
}

// settle records how the answer ended.
func (a *account) settle(o transport.Outcome) {
	switch transport.ClassOf(o.Err) {
	case "":
	case transport.ClientGone, transport.ClientSlow, transport.ClientBody, transport.ClientLate:
		a.report.Client = report.ClientGoneStreaming
	case transport.Closed:
		a.report.Client, a.report.Reason = report.ClientCutShutdown, report.ReasonShutdown
	case transport.NoRoom:
		a.report.Outcome, a.report.Reason = report.Failed, rewrite.ReasonOverload
	case transport.Internal:
		a.report.Outcome, a.report.Reason = report.Failed, report.ReasonInternal
	default:
		a.report.Client, a.report.Truncated = report.ClientCutUpstream, true
		if n := len(a.report.Calls); n > 0 {
			noteFault(&a.report.Calls[n-1], o.Err)
		}
	}
}

// finish counts the request as ended when its answer is over. Its slot is free before its Report
// is recorded.
func (a *account) finish() {
	a.report.Total = time.Since(a.report.Time)
	if a.streaming {
		a.server.metrics.EndStream()
	}
	a.server.metrics.End()
	a.server.openRequests.Add(-1)
}

// record records the Report. It recovers panics of recorders, because no caller would; only the
// record is lost then.
func (a *account) record() {
	defer a.dropDraft()
	defer panics.Recover(a.panicked, nil)
	if a.shadow != nil {
		a.report.Rewrite = *a.shadow
		if a.report.Reason == "" {
			a.report.Reason = a.shadow.Reason
		}
	}
	a.checker.Tell()
	a.charge()
	a.endTrace()
	a.report.AddRounds(&a.before)
	a.tellGuard()
	a.keepAnswer()
	draft := a.draft
	a.draft = nil
	draft.Finish(&a.report)
	a.server.records.Record(&a.report)
}

// dropDraft drops what was to be recorded, if record did not come to it.
func (a *account) dropDraft() {
	a.draft.Discard()
	a.draft = nil
}

// charge charges the last call: it settles the reservation or, without one, adds the usage.
func (a *account) charge() {
	r := &a.report
	if a.spending != nil {
		a.spending.Settle(r)
		a.spending = nil
		return
	}
	if a.server.budgets == nil || a.terms == nil || a.terms.Limited() {
		r.MeasureContext(nil)
		return // nothing is charged, or the request was refused
	}
	model, kind := a.model, KindOf(r)
	if stage := r.Stages.Last(); stage != nil && kind == budget.Stage {
		model = stage.Model
	}
	r.Budget.Charged = UnreservedCost(a.terms, r, model, a.tier)
	if a.before.Counted() {
		r.Budget.Charged.Requests = 0
	}
	a.server.budgets.Add(budget.MeteredCall{Tenant: r.Tenant, Kind: kind, Model: a.billedModel(kind, model), Key: r.Key}, r.Budget.Charged)
}

// billedModel returns the row of the model table for a bill: that of the request, or of a model
// that a stage or an answer to an unread request names; "" if none is known.
func (a *account) billedModel(kind budget.Kind, name string) string {
	if row := a.report.Model(); row != "" && kind != budget.Stage {
		return row
	}
	if name = cmp.Or(name, a.report.Answered.Model); name == "" {
		return ""
	}
	return a.server.setup.Load().rewriter.Models.Model(name).Row
}

// ours lists Sidenote's own header lines, which are removed from upstream answers. It is
// never changed.
var ours = []transport.Header{{Name: report.HeaderID}, {Name: report.HeaderStatus}, {Name: report.HeaderSources}}

// tell appends Sidenote's header lines to the head of an upstream's answer. On a generation route
// they hold the request's ID, status and sources; if the upstream refused the request, only the
// ID, as the caller may not be allowed to know what was found. On other routes there are none.
func (a *account) tell(head []byte) []byte {
	if a.report.Outcome == report.Relayed {
		return head
	}
	head = append(append(head, "\r\n"+report.HeaderID+": "...), a.report.ID...)
	if a.report.UpstreamStatus()/100 != 2 {
		return head
	}
	head = report.AppendStatus(append(head, "\r\n"+report.HeaderStatus+": "...), &a.report)
	named := append(head, "\r\n"+report.HeaderSources+": "...)
	if all := report.AppendAllSources(named, &a.report); len(all) > len(named) {
		return all
	}
	return head
}
