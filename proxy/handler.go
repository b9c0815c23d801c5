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

// An exchange is one request and its answer: what the stages of Handle hand
// down. It outlives the handler, for streams do; the RequestCtx does not, so
// nothing in it may point there once the answer flows. It is used again when
// both the handler has returned and its Report is recorded.
type exchange struct {
	server   *Server
	report   Report
	target   Target
	policy   *Policy
	upstream *backend
	read     time.Duration // from report.Time until all of the request that a decision waits for was there

	ended     atomic.Bool
	holders   atomic.Int32    // the handler and the account
	pending   atomic.Int32    // what ends before the report is recorded: the answer, and shadow work where there is some
	shadow    *rewrite.Result // of that work, when it is done
	streaming bool            // the answer is a stream
	retry     retry           // to send the request again; its req is nil where that is not to be
	held      int             // bytes that the body takes of the memory for bodies
	packed    []byte          // the body as it came, if it was compressed
	plain     [][]byte        // the body as it goes up, before that, in pieces; empty once it is up
	parser    *rewrite.Parser // holds the parsed body; nil once that is up
	sampled   bool            // the answer is to be learnt from
	sample    *sample         // of such an answer

	head     [3]transport.Header     // of lines
	whenDone func(transport.Outcome) // done, made once
	panicked panics.Handler          // bug, made once
}

// Handle is the life of one request, top to bottom.
func (s *Server) Handle(ctx *fasthttp.RequestCtx) {
	x := s.begin(ctx)
	defer x.release()
	defer panics.Recover(x.panicked, func() { x.refuse(ctx, AsError(errPanic)) })
	if err := x.serve(ctx); err != nil {
		x.refuse(ctx, AsError(err))
	}
}

// serve relays a request, or answers it, or says in its error why neither.
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
	if transport.Addressed(ctx) {
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
		return x.pass(ctx, body, reason)
	}
	return x.chat(ctx, body, asked)
}

// begin opens the account of a request.
func (s *Server) begin(ctx *fasthttp.RequestCtx) *exchange {
	now := ctx.Time() // of this call
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
	x.holders.Store(2)
	s.metrics.Begin()
	s.open.Add(1)
	s.work.Add(1)
	return x
}

// release is called by each holder of x when it is done with it. The last one clears x,
// so that nothing of this request stays, and gives it to another one.
func (x *exchange) release() {
	if x.holders.Add(-1) > 0 {
		return
	}
	pool := &x.server.exchanges
	x.dropBody()
	*x = exchange{whenDone: x.whenDone, panicked: x.panicked, plain: x.plain}
	pool.Put(x)
}

// bug tells of a panic that this request met.
func (x *exchange) bug(value any, stack []byte) { x.server.bug(x.report.ID, value, stack) }

// admit sheds what cannot be served now or at all.
func (x *exchange) admit(ctx *fasthttp.RequestCtx) error {
	if x.server.leaving.Load() {
		ctx.SetConnectionClose()
	}
	switch s := x.server; {
	case s.draining.Load():
		ctx.SetConnectionClose()
		return &Error{Reason: ReasonShutdown, Message: "Sidenote is shutting down; try again."}
	case s.open.Load() > s.concurrency:
		s.metrics.Shed("concurrency")
		return &Error{Reason: rewrite.ReasonOverload, Message: fmt.Sprintf("Sidenote serves %d requests at once and has no room for this one; try again.", s.concurrency)}
	case s.memory.tight(x.report.Time):
		return s.noRoom()
	case ctx.IsConnect():
		ctx.SetConnectionClose()
		return &Error{Reason: ReasonMisdirected, Message: "Sidenote is not a forward proxy; set it as the API's base URL instead of as HTTP proxy."}
	case bytes.Contains(ctx.RequestURI(), []byte(KeyPrefix)): // the upstream would see it
		return &Error{Reason: ReasonCredentials, Message: "The URL holds a key of Sidenote's; send it in the header Authorization as a bearer token."}
	}
	return nil
}

// noRoom sheds a request for want of memory.
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
	x.become(p)
	if x.upstream.replace != nil {
		return x.open(ctx.Method(), p.Routes)
	}
	if x.target.Ambiguous && x.target.Route == RouteChat && p.Rewrite.Strict() {
		return x.ambiguous()
	}
	return nil
}

func noKey() error {
	return &Error{Reason: ReasonKey, Message: "You sent no API key; send yours in the header Authorization as a bearer token."}
}

// become makes this a request of p's tenant.
func (x *exchange) become(p *Policy) {
	x.policy, x.upstream = p, x.server.upstreams[p.Upstream]
	x.report.Tenant, x.report.Policy, x.report.PolicyHash = p.Tenant, p.Name, p.Hash
	x.report.Upstream, x.report.Expose = p.Upstream, p.Expose
}

// open checks that method and path are, beyond doubt, those of a route that is open.
func (x *exchange) open(method []byte, routes []string) error {
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

// relay passes a request that Sidenote does not own.
func (x *exchange) relay(ctx *fasthttp.RequestCtx) error {
	if x.target.Route.Generates() {
		x.report.Outcome, x.report.Reason = rewrite.Untouched, rewrite.ReasonRoute
	}
	return x.forward(ctx, transport.Request{Replace: x.upstream.replace})
}

// chat decides what becomes of a chat request whose body is whole, given what
// its headers asked for.
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
		x.beside(body, policy, asked)
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
		x.answer(ctx, req, policy.EmptyAnswer)
		return nil
	case rewrite.Injected:
		if x.policy.RetryTooLong {
			x.retry = retry{body, req, policy, asked}
		}
	}
	return x.send(ctx, body, res.Edits)
}

// noSources refuses a request whose sources could not be had, or not all of them.
func noSources(res *rewrite.Result) *Error {
	message := "The sources that every answer here must rest on are not available; try again."
	if len(res.Retrieval.Sources) > 0 {
		message = "Not all of the knowledge that every answer here must rest on could be searched; try again."
	}
	return &Error{Reason: res.Reason, Message: message}
}

// chatAsItIs passes a chat request that cannot be rewritten for what err says of it,
// without the field where there is one in JSON. Strict policies refuse it.
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

// beside does the work of an injected request beside one that goes up at once,
// for metrics and log, on a copy of the body. There is a bound on how much of it
// runs; beyond, it is not done.
func (x *exchange) beside(body []byte, p rewrite.Policy, o rewrite.Options) {
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
		defer x.leave()
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

// beginShadow takes what work on a copy of so many bytes needs. It is false where
// there is none of it left.
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
