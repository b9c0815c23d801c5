package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// An exchange is one request and its answer, the state that the stages of Handle
// share. It lasts until the answer ends, and a stream ends after the handler has
// returned. The RequestCtx does not last that long, so no field may point into it once
// the answer is being relayed. An exchange is used again for another request when the
// handler has returned and the Report is recorded.
type exchange struct {
	server   *Server
	report   Report
	target   Target
	policy   *Policy
	upstream *backend
	readTook time.Duration // from report.Time until the request was read, with its body if that is read whole

	ended      atomic.Bool
	references atomic.Int32    // who still uses x: the handler, and the record to be made
	pending    atomic.Int32    // what must end before the Report is recorded: the answer, and shadow work if any
	shadow     *rewrite.Result // the result of shadow work, when it is done
	streaming  bool            // the answer is a stream
	retry      retry           // what a second, shorter request is made of; its req is nil if none may be sent
	held       int             // bytes taken from server.memory for the body
	compressed []byte          // the body as it came, if it was compressed
	outgoing   [][]byte        // the pieces of the body for the upstream; empty once they are sent
	parser     *rewrite.Parser // holds the parsed body; nil once that is sent
	sampled    bool            // the upstream's token count of this request is compared with ours
	sample     *sample         // collects that count from the answer; nil if nothing is collected

	head     [3]transport.Header     // the memory for the result of lines
	whenDone func(transport.Outcome) // the method value done, allocated once
	panicked panics.Handler          // the method value bug, allocated once
}

// Handle serves one request.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {
	x := s.begin(ctx)
	defer x.release()
	defer panics.Recover(x.panicked, func() { x.refuse(ctx, AsError(errPanic)) })
	if err := x.serve(ctx); err != nil {
		x.refuse(ctx, AsError(err))
	}
}

// serve relays the request or answers it. If it does neither, its error is the answer.
func (x *exchange) serve(ctx *fasthttp.RequestCtx) error {
	if err := x.admit(ctx); err != nil {
		return err
	}
	if method := preflighted(&ctx.Request.Header); len(method) > 0 {
		return x.preflight(ctx, method)
	}
	if err := x.identify(ctx); err != nil {
		return err
	}
	if x.target.Route != RouteChat {
		return x.relay(ctx)
	}
	var asked rewrite.Options
	if transport.Capture(ctx).Addressed() {
		var err error
		if asked, err = HeaderOptions(&ctx.Request.Header); err != nil {
			return err
		}
	}
	body, reason, err := x.readBody(ctx)
	if err != nil {
		return err
	}
	if reason != "" {
		return x.passUnread(ctx, body, reason)
	}
	return x.chat(ctx, body, asked)
}

// begin counts a request in and returns its exchange.
func (s *Server) begin(ctx *fasthttp.RequestCtx) *exchange {
	now := ctx.Time() // when this call of the handler began
	x, _ := s.exchanges.Get().(*exchange)
	if x == nil {
		x = new(exchange)
		x.whenDone, x.panicked = x.done, x.bug
	}
	x.server = s
	x.target = Classify(ctx.Method(), ctx.Request.Header.RequestURI())
	r := &x.report
	r.ID, r.Time, r.Route, r.Outcome, r.Client = NewID(now), now, x.target.Route, Relayed, ClientCompleted
	x.pending.Store(1)
	x.references.Store(2)
	s.metrics.Begin()
	s.openRequests.Add(1)
	s.work.Add(1)
	return x
}

// release gives up one of x's references. When the last one is gone x is cleared, so
// that nothing of this request stays in memory, and put back into the pool.
func (x *exchange) release() {
	if x.references.Add(-1) > 0 {
		return
	}
	pool := &x.server.exchanges
	x.dropBody()
	*x = exchange{whenDone: x.whenDone, panicked: x.panicked, outgoing: x.outgoing}
	pool.Put(x)
}

// bug reports a panic that this request met.
func (x *exchange) bug(value any, stack []byte) { x.server.bug(x.report.ID, value, stack) }

// admit refuses a request that cannot be served, now or ever.
func (x *exchange) admit(ctx *fasthttp.RequestCtx) error {
	if x.server.draining.Load() {
		ctx.SetConnectionClose()
	}
	switch s := x.server; {
	case s.shuttingDown.Load():
		ctx.SetConnectionClose()
		return &Error{Reason: ReasonShutdown, Message: "Sidenote is shutting down; try again."}
	case s.openRequests.Load() > s.concurrency:
		s.metrics.Shed("concurrency")
		return &Error{Reason: rewrite.ReasonOverload, Message: fmt.Sprintf("Sidenote serves %d requests at once and has no room for this one; try again.", s.concurrency)}
	case s.memory.tight(x.report.Time):
		return s.noRoom()
	case ctx.IsConnect():
		ctx.SetConnectionClose()
		return &Error{Reason: ReasonMisdirected, Message: "Sidenote is not a forward proxy; set it as the API's base URL instead of as HTTP proxy."}
	case bytes.Contains(ctx.RequestURI(), []byte(KeyPrefix)): // the upstream would see the key
		return &Error{Reason: ReasonCredentials, Message: "The URL holds a key of Sidenote's; send it in the header Authorization as a bearer token."}
	}
	return nil
}

// noRoom counts and returns the refusal of a request for which memory is too short.
func (s *Server) noRoom() *Error {
	s.metrics.Shed("memory")
	return &Error{Reason: rewrite.ReasonOverload, Message: "Sidenote is short of memory and has no room for this request; try again."}
}

// identify finds the caller's policy and upstream and checks that this request
// may go there.
func (x *exchange) identify(ctx *fasthttp.RequestCtx) error {
	var key string
	if x.server.tenants.Keyed() {
		var err error
		if key, err = Credential(&ctx.Request.Header); err != nil {
			return err
		}
	}
	p, byKey := x.server.tenants.recognise(key, x.report.Time)
	switch {
	case p == nil && key == "":
		return noKey()
	case p == nil:
		return &Error{Reason: ReasonKey, Message: "The API key you sent is not known here, or it has expired."}
	case !byKey:
		if err := x.server.tenants.keyless.check(ctx); err != nil {
			return err
		}
	}
	x.usePolicy(p)
	if x.upstream.replace != nil {
		return x.checkRoute(ctx.Method(), p.Routes)
	}
	if x.target.Ambiguous && x.target.Route == RouteChat && p.Rewrite.Strict() {
		return x.ambiguous()
	}
	return nil
}

func noKey() error {
	return &Error{Reason: ReasonKey, Message: "You sent no API key; send yours in the header Authorization as a bearer token."}
}

// usePolicy makes this a request of p's tenant.
func (x *exchange) usePolicy(p *Policy) {
	x.policy, x.upstream = p, x.server.upstreams[p.Upstream]
	x.report.Tenant, x.report.Policy, x.report.PolicyHash = p.Tenant, p.Name, p.Hash
	x.report.Upstream, x.report.Expose = p.Upstream, p.Expose
}

// checkRoute refuses a request unless its method and path are unambiguously those of
// one of the routes.
func (x *exchange) checkRoute(method []byte, routes []string) error {
	switch {
	case x.target.Ambiguous:
		return x.ambiguous()
	case !x.target.Allowed(method, routes):
		return &Error{Reason: ReasonRouteRefused, Message: fmt.Sprintf("%s %s is not open to your key.", method, x.target.Path)}
	}
	return nil
}

func (x *exchange) ambiguous() error {
	return &Error{Reason: ReasonPath, Message: fmt.Sprintf("The path could be read as %q; send it in that form.", x.target.Path)}
}

// relay passes on a request that Sidenote does not rewrite.
func (x *exchange) relay(ctx *fasthttp.RequestCtx) error {
	if x.target.Route.Generates() {
		x.report.Outcome, x.report.Reason = rewrite.Untouched, rewrite.ReasonRoute
	}
	return x.forward(ctx, transport.Call{Replace: x.upstream.replace})
}

// chat rewrites a chat request, or not, as its policy says, and sends it. body is
// whole; asked are the options of its headers.
func (x *exchange) chat(ctx *fasthttp.RequestCtx, body []byte, asked rewrite.Options) error {
	x.parser = x.server.parsers.Get().(*rewrite.Parser)
	req, bodyErr := x.parser.Parse(body)
	if req != nil {
		field, err := req.Options()
		if err != nil {
			return err
		}
		asked = MergeOptions(asked, field)
	}
	policy := x.policy.Rewrite.Narrow(asked)
	if bodyErr != nil {
		return x.chatAsItIs(ctx, body, req, policy, bodyErr)
	}
	x.report.Stream, x.sampled = req.Stream, x.server.rewriter.Sample()

	switch policy.Mode {
	case rewrite.Off:
		x.report.Rewrite.Model = x.server.rewriter.Models.Model(req.Model)
		x.report.Outcome, x.report.Reason = rewrite.Untouched, rewrite.ReasonOff
		return x.send(ctx, body, req.StripEdits(policy))
	case rewrite.Shadow:
		x.report.Outcome = rewrite.Shadowed
		x.report.Rewrite.Model = x.server.rewriter.Models.Model(req.Model)
		x.runShadow(body, policy, asked)
		return x.send(ctx, body, req.StripEdits(policy))
	}
	res := &x.report.Rewrite
	*res = x.server.rewriter.Rewrite(x.server.base, policy, req, asked)
	x.report.Outcome, x.report.Reason = res.Outcome, res.Reason
	switch res.Outcome {
	case rewrite.Refused:
		if res.Ambiguity != nil {
			return res.Ambiguity
		}
		return noSources(res)
	case rewrite.Answered:
		x.sendFixedAnswer(ctx, req, policy.EmptyAnswer)
		return nil
	case rewrite.Injected:
		if x.policy.RetryTooLong {
			x.retry = retry{body, req, policy, asked}
		}
	}
	return x.send(ctx, body, res.Edits)
}

// noSources refuses a request if a policy demands sources and not all knowledge could
// be searched.
func noSources(res *rewrite.Result) *Error {
	message := "The sources that every answer here must rest on are not available; try again."
	if len(res.Retrieval.Sources) > 0 {
		message = "Not all of the knowledge that every answer here must rest on could be searched; try again."
	}
	return &Error{Reason: res.Reason, Message: message}
}

// chatAsItIs passes on a chat request that cannot be rewritten, for the reason in err.
// Of a body that is JSON the field "sidenote" is still removed. A strict policy
// refuses the request.
func (x *exchange) chatAsItIs(ctx *fasthttp.RequestCtx, body []byte, req *rewrite.Request, p rewrite.Policy, err error) error {
	bodyErr, ok := errors.AsType[*rewrite.BodyError](err)
	if !ok || p.Strict() {
		return err
	}
	x.report.Outcome, x.report.Reason = rewrite.Untouched, bodyErr.Reason
	if req == nil {
		return x.send(ctx, body, nil)
	}
	if p.Mode == rewrite.Off {
		x.report.Reason = rewrite.ReasonOff
	}
	return x.send(ctx, body, req.StripEdits(rewrite.Policy{}))
}

// runShadow rewrites a copy of the body for metrics and log, while the request itself
// goes to the upstream at once and unchanged. If as much shadow work runs as is
// allowed, it does nothing.
func (x *exchange) runShadow(body []byte, p rewrite.Policy, o rewrite.Options) {
	s := x.server
	if !s.beginShadow(len(body)) {
		s.metrics.Shed("shadow")
		x.report.Reason = rewrite.ReasonOverload
		return
	}
	body = bytes.Clone(body)
	x.pending.Add(1)
	s.work.Add(1)
	panics.Go(s.panicked, func() {
		defer s.endShadow(len(body))
		defer x.recordIfLast()
		defer panics.Recover(x.panicked, func() {
			x.shadow = &rewrite.Result{Outcome: Failed, Reason: ReasonInternal, Model: x.report.Rewrite.Model}
		})
		req, err := rewrite.Parse(body)
		if err != nil {
			panic("BUG: a body parsed once and not twice: " + err.Error())
		}
		res := s.rewriter.Rewrite(s.base, p, req, o)
		x.shadow = &res
	}, s.work.Done)
}

// beginShadow takes a slot and size bytes of memory for shadow work. It returns false,
// having taken nothing, if there is not enough left of either.
func (s *Server) beginShadow(size int) bool {
	if !s.memory.take(size) {
		return false
	}
	select {
	case s.shadows <- struct{}{}:
		return true
	default:
		s.memory.give(size)
		return false
	}
}

func (s *Server) endShadow(size int) {
	<-s.shadows
	s.memory.give(size)
}
