package proxy

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// A request holds what is known of a client's request: its head and, after identify, its caller,
// policy and upstream.
type request struct {
	ctx      *fasthttp.RequestCtx // valid until the handler returns, as is head
	head     *transport.Head
	life     context.Context // for all work of the request: ends when the client leaves
	work     context.Context // life with the innermost open span
	target   route.Target
	setup    *setup
	caller   tenant.Caller
	policy   *tenant.Policy // the caller's
	upstream *backend
}

func (q *request) begin(s *Server, ctx *fasthttp.RequestCtx) {
	q.setup = s.setup.Load()
	q.ctx, q.head, q.life = ctx, transport.Capture(ctx), transport.Watch(ctx, s.base)
	q.target = route.Classify(ctx.Method(), ctx.Request.Header.RequestURI())
}

// admit refuses requests that cannot be served now, or at all.
func (s *Server) admit(q *request, now time.Time) error {
	ctx := q.ctx
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	switch {
	case s.shuttingDown.Load():
		ctx.SetConnectionClose()
		return &tenant.APIError{Reason: report.ReasonShutdown, Message: "Sidenote is shutting down; try again."}
	case s.openRequests.Load() > s.concurrency:
		s.metrics.Shed("concurrency")
		return &tenant.APIError{Reason: rewrite.ReasonOverload, Message: fmt.Sprintf("Sidenote serves %d requests at once and has no room for this one; try again.", s.concurrency)}
	case s.memory.Tight(now):
		return s.noRoom()
	case ctx.IsConnect():
		ctx.SetConnectionClose()
		return &tenant.APIError{Reason: report.ReasonMisdirected, Message: "Sidenote is not a forward proxy; set it as the API's base URL instead of as HTTP proxy."}
	case bytes.Contains(ctx.RequestURI(), []byte(tenant.KeyPrefix)): // the upstream would see the key
		return &tenant.APIError{Reason: report.ReasonCredentials, Message: "The URL contains a Sidenote key; send it in the header Authorization as a bearer token."}
	}
	return nil
}

// noRoom counts the refusal of a request for lack of memory and returns its error.
func (s *Server) noRoom() *tenant.APIError {
	s.metrics.Shed("memory")
	return &tenant.APIError{Reason: rewrite.ReasonOverload, Message: "Sidenote is short of memory and has no room for this request; try again."}
}

// identify finds the caller's policy and upstream and checks that this request is allowed there.
func (x *exchange) identify() error {
	caller, err := x.setup.tenants.Identify(senderOf(x.ctx), x.head.HasSidenoteHeader(), x.report.Time)
	x.caller, x.report.Denied = caller, caller.Denied()
	if err != nil {
		return err
	}
	x.report.By, x.report.Key = caller.By, caller.Key
	x.usePolicy(caller.Policy)
	if x.isFeedback() {
		return nil
	}
	if x.upstream.replace != nil || x.policy.Models != nil || x.policy.Budget.Limited() {
		if err := x.checkRoute(x.ctx.Method(), x.policy.Routes); err != nil || x.policy.Models == nil {
			return err
		}
		return x.checkTargetModels()
	}
	if x.target.Ambiguous && x.target.Route.Rewritten() && (x.policy.Overrides != nil || x.policy.Strict()) {
		return x.ambiguous()
	}
	return nil
}

// usePolicy makes this a request of p's tenant.
func (x *exchange) usePolicy(p *tenant.Policy) {
	p, from := p.Limited(x.server.modes, x.report.Time)
	if x.target.Route.Rewritten() {
		x.report.SwitchedFrom = from
	}
	x.policy, x.upstream, x.terms = p, x.setup.upstreams[p.Upstream], &p.Budget
	x.report.Tenant, x.report.Policy, x.report.PolicyHash = p.Tenant, p.Name, p.Hash
	x.report.Upstream, x.report.Expose = p.Upstream, p.Expose
}

// checkRoute refuses a request unless its method and path are unambiguously those of one of the
// routes.
func (q *request) checkRoute(method []byte, routes []string) error {
	switch {
	case q.target.Ambiguous:
		return q.ambiguous()
	case !q.target.Allowed(method, routes):
		return &tenant.APIError{Reason: report.ReasonRouteRefused, Message: fmt.Sprintf("%s %s is not open to your key.", method, q.target.Path)}
	}
	return nil
}

func (q *request) ambiguous() error {
	return &tenant.APIError{Reason: report.ReasonPath, Message: fmt.Sprintf("The path could be read as %q; send it in that form.", q.target.Path)}
}

func senderOf(ctx *fasthttp.RequestCtx) tenant.Sender {
	return tenant.Sender{Header: &ctx.Request.Header, Peer: transport.PeerOf(ctx), Remote: ctx.RemoteAddr(), Local: ctx.LocalAddr()}
}

// replacements returns the header lines that replace the client's: Sidenote's key for the
// upstream, or the removal of a credential that is meant for Sidenote. nil keeps all lines.
func (q *request) replacements() []transport.Header {
	if q.upstream.replace == nil && (q.caller.By == report.ByJWT || q.caller.StripCredential) {
		return withoutCredentials
	}
	return q.upstream.replace
}

// withoutCredentials removes credentials. It is never changed.
var withoutCredentials = []transport.Header{{Name: "Authorization"}, {Name: "Api-Key"}, {Name: "X-Api-Key"}}

// preflighted returns the method that a browser asks permission for on behalf of a page; nil if
// this is not a CORS preflight (Fetch standard, "CORS-preflight request"). A preflight has neither
// a body nor credentials.
func preflighted(h *fasthttp.RequestHeader) (method []byte) {
	if !h.IsOptions() || h.ContentLength() > 0 || h.ContentLength() == -1 || len(h.Peek(fasthttp.HeaderOrigin)) == 0 {
		return nil
	}
	if key, err := tenant.Credential(h); key != "" || err != nil {
		return nil
	}
	return h.Peek(fasthttp.HeaderAccessControlRequestMethod)
}

// preflight relays a CORS preflight, without Sidenote's key; the upstream answers it. If keys
// identify the callers, it is not known whose preflight it is. It is then relayed if there is only
// one upstream and the routes of some tenant allow the request.
func (x *exchange) preflight(method []byte) (err error) {
	p := x.setup.tenants.ByKey("", x.report.Time)
	if tenant := transport.PeerOf(x.ctx).Tenant; tenant != "" {
		p = x.setup.tenants.ByName(tenant)
	}
	if p != nil {
		if err := x.setup.tenants.CheckPage(senderOf(x.ctx)); err != nil {
			return err // the actual request may come without a key
		}
		if x.usePolicy(p); x.upstream.replace != nil {
			err = x.checkRoute(method, p.Routes)
		}
	} else if err = tenant.NoKey(); len(x.setup.upstreams) == 1 {
		if x.setup.tenants.Trusts(senderOf(x.ctx)) { // the actual request may need no key
			if err := x.setup.tenants.CheckPage(senderOf(x.ctx)); err != nil {
				return err
			}
		}
		for _, p := range x.setup.tenants.Policies() {
			x.report.Upstream, x.upstream = p.Upstream, x.setup.upstreams[p.Upstream]
			if err = x.checkRoute(method, p.Routes); err == nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	return x.forward(transport.Call{NoUpgrade: true})
}
