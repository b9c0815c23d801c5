// Package admin serves the admin port: dry runs of rewrites, searches (also in the shape of
// OpenAI's vector stores), the management of knowledge bases, metrics and probes. No request to it
// can reach an upstream or choose a path on the disk.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/cache/usage"
	"sidenote/proxy"
	"sidenote/proxy/audit"
	"sidenote/proxy/experiment"
	"sidenote/proxy/explain"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

const (
	maxBody  = 32 << 20 // the default limit of the data port
	bodyWait = 30 * time.Second
)

// A Handler answers requests on the admin port. Its fields must not change once it is in use.
type Handler struct {
	Telemetry
	Rewriter    *rewrite.Rewriter
	Assembler   *rewrite.Assembler // builds messages from typed chunks; nil disables that endpoint
	Planners    *proxy.Planners    // for dry runs; nil disables planning
	Tenants     *tenant.Directory
	Lookup      *explain.Knowledge // searches and reads
	Library     Library            // content for the vector-store endpoints; nil disables them
	Manager     Manager            // manages bases; nil disables those endpoints
	Explain     *explain.Ring      // the last requests; nil if none are kept
	Overview    *explain.Recorder  // counts of the last hour; nil disables that endpoint
	Tools       *tools.Box         // runs tools; nil disables those endpoints
	Usage       budget.Reporter    // usage of tenants; nil disables that endpoint
	Months      usage.Reader       // usage of tenants by month; nil: it is not told
	Experiments *experiment.Store  // comparisons of policies; nil disables those endpoints
	Modes       *tenant.Switch     // lowers the modes of tenants; nil disables that endpoint
	Reload      Reload             // reloads the configuration; nil disables that endpoint
	Inspector   Inspector          // pages for people; nil disables them
	Audit       *audit.Log         // gets what is changed and refused; may be nil
	Hosts       []string           // names by which this port may be called, besides localhost and addresses

	// Callers send tokens as bearer tokens. Without Token, ReadToken and Tokens, reads need none.
	Token     proxy.Secret // for everything; probes need none
	ReadToken proxy.Secret // for reads only
	Tokens    []Token      // more tokens, with scopes of their own
	// StateToken returns the token of the state folder, or why there is none. It is for everything
	// unless another such token is configured. It may be nil.
	StateToken func() (string, error)

	keys keyList // of Tenants
}

// An Inspector serves the pages of the admin port.
type Inspector interface {
	// Answer answers a request and returns true, unless there is nothing at its path. Host and
	// Origin have been checked. If admitted is false, the caller may read only after signing in
	// with a token that may inspect. by is the name of the bearer token, "" for none; tokens returns
	// the valid tokens.
	Answer(ctx *fasthttp.RequestCtx, by string, admitted bool, tokens func() []Token) bool
}

// A Telemetry serves only /metrics, /healthz and /readyz, without a token, for a listener that
// scrapers and probes can reach.
type Telemetry struct {
	Metrics prometheus.Gatherer
	Ready   func() []string // returns why requests cannot be served, a line each; may be nil
	Trouble func() []string // returns the helpers that currently fail, a line each; may be nil
}

// An endpoint handles one method on one path.
type endpoint struct {
	method string // GET includes HEAD
	path   string // as in routes, which says what requests need
	form   bool   // a write that takes multipart/form-data besides JSON
	handle func(*fasthttp.RequestCtx) error
}

func (t Telemetry) endpoint(path string) (endpoint, bool) {
	handle, ok := map[string]func(*fasthttp.RequestCtx) error{"/metrics": t.metrics, "/healthz": t.healthz, "/readyz": t.readyz}[path]
	return endpoint{method: "GET", path: path, handle: handle}, ok
}

// A request is a request with its caller.
type request struct {
	*Handler
	by    caller
	trail *trail
}

// endpoint returns the endpoint at the path of a request.
func (r request) endpoint(ctx *fasthttp.RequestCtx) (e endpoint, ok bool) {
	path, method := string(ctx.Path()), string(ctx.Method())
	// Not decoded, because the id of a document may contain any character.
	original := string(ctx.URI().PathOriginal())
	if e, ok = r.fixed(method, path); ok {
		return e, ok
	}
	if r.Library != nil {
		if e, ok = r.storeEndpoint(original); ok {
			return e, ok
		}
	}
	if r.Manager != nil {
		if e, ok = (management{Manager: Audited(r.Manager, func(e audit.Event) { r.record(ctx, e) }), by: &r.by}).endpoint(method, original); ok {
			return e, ok
		}
	}
	if r.Tools != nil {
		if e, ok = (tooling{r}).endpoint(path); ok {
			return e, ok
		}
	}
	if r.Usage != nil {
		return usageEndpoints{r.Usage, r.Months, r.Tenants, r.Overview}.endpoint(path)
	}
	return endpoint{}, false
}

// fixed returns the endpoint at a path without ids of knowledge.
func (r request) fixed(method, path string) (endpoint, bool) {
	if e, ok := map[string]endpoint{
		"/v1/rewrite":     {method: "POST", handle: r.rewrite},
		"/v1/search":      {method: "POST", handle: r.search},
		"/v1/read":        {method: "POST", handle: r.read},
		"/v1/calibration": {method: "GET", handle: r.calibration},
		KeysPath:          {method: "GET", handle: func(ctx *fasthttp.RequestCtx) error { return r.keys.answer(ctx, r.Tenants) }},
		ProofPath:         {method: "GET", handle: r.proof},
	}[path]; ok {
		e.path = path
		return e, true
	}
	if r.Experiments != nil {
		if e, ok := (experiments{r.Experiments}).endpoint(path); ok {
			return e, ok
		}
	}
	id, explained := strings.CutPrefix(path, ExplainPath)
	switch {
	case path == "/v1/context" && r.Assembler != nil:
		return endpoint{method: "POST", path: path, handle: r.context}, true
	case path == OverviewPath && r.Overview != nil:
		return endpoint{method: "GET", path: path, handle: r.overview}, true
	case path == ModePath && r.Modes != nil:
		return switching{r, r.Modes, r.Tenants}.endpoint(method), true
	case path == ReloadPath && r.Reload != nil:
		return endpoint{method: "POST", path: path, handle: r.reload}, true
	case explained && id != "":
		return endpoint{method: "GET", path: ExplainPath + "{id}", handle: func(ctx *fasthttp.RequestCtx) error { return r.explain(ctx, id) }}, true
	}
	return r.Telemetry.endpoint(path)
}

// Handle answers one request, if it is allowed.
func (h *Handler) Handle(ctx *fasthttp.RequestCtx) {
	r := request{h, h.callerOf(ctx), new(trail)}
	defer r.trail.show(ctx)
	e, ok := r.endpoint(ctx)
	if err := h.admit(ctx, e, ok, &r.by); err != nil {
		r.refusedToken(ctx, err)
		refuse(ctx, err)
		return
	}
	if !ok && h.Inspector != nil && h.Inspector.Answer(ctx, r.by.Name, r.by.MayInspect() || r.by.Scope == "" && h.open(), h.valid) {
		return
	}
	serve(ctx, e, ok, h.index())
}

// index returns a description of the port for programs that request /. Browsers are redirected to
// the pages.
func (h *Handler) index() string {
	index := "Sidenote's admin port: /metrics, /healthz, /readyz and the API under /v1."
	if h.Inspector != nil {
		index += " Open /overview in a browser for the pages."
	}
	return index
}

// Handle answers one request.
func (t Telemetry) Handle(ctx *fasthttp.RequestCtx) {
	e, ok := t.endpoint(string(ctx.Path()))
	serve(ctx, e, ok, "Sidenote's telemetry port: /metrics, /healthz and /readyz.")
}

// serve answers a request with an endpoint, or with an error if ok is false. index is the answer
// for /.
func serve(ctx *fasthttp.RequestCtx, e endpoint, ok bool, index string) {
	method := string(ctx.Method())
	switch {
	case !ok && string(ctx.Path()) == "/" && (method == "GET" || method == "HEAD"):
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetBodyString(index + "\n")
		return
	case !ok:
		fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("There is nothing at %s.", ctx.Path()))
		return
	case method != e.method && (e.method != "GET" || method != "HEAD"):
		fail(ctx, fasthttp.StatusMethodNotAllowed, "method_not_allowed", fmt.Sprintf("%s takes %s.", ctx.Path(), e.method))
		ctx.Response.Header.Set("Allow", e.method)
		return
	}
	if err := e.handle(ctx); err != nil {
		refuse(ctx, err)
	}
}

// refuse answers with an error.
func refuse(ctx *fasthttp.RequestCtx, err error) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		refusal.write(ctx)
		return
	}
	tenant.AsError(err).Write(ctx, chat.Completions, report.IDs{Request: report.ReadRequestID(ctx.Request.Header.Peek("X-Request-Id"))})
}

// fail answers with an error that only this port has. Errors shared with the data port are
// proxy.Errors.
func fail(ctx *fasthttp.RequestCtx, status int, code, message string) {
	ctx.Response.Reset()
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(tenant.ErrorJSON(message, "invalid_request_error", code, ""))
}

// body reads a request's whole body.
func body(ctx *fasthttp.RequestCtx) ([]byte, error) {
	b, whole, err := transport.ReadBody(ctx, maxBody, bodyWait, nil)
	switch {
	case transport.ClassOf(err) == transport.ClientLate:
		return nil, &tenant.APIError{Reason: report.ReasonBodySlow, Message: "The body of the request came too slowly; try again.", Err: err}
	case err != nil:
		return nil, &tenant.APIError{Reason: report.ReasonBodyRead, Message: "The body of the request did not arrive whole.", Err: err}
	case !whole:
		ctx.SetConnectionClose()
		return nil, &tenant.APIError{Reason: rewrite.ReasonTooLarge, Message: fmt.Sprintf("The body is larger than %d bytes.", maxBody)}
	}
	return b, nil
}

// A Server serves a listener of this package.
type Server struct{ http *transport.Server }

// NewServer returns a server for the Handle method of a Handler or a Telemetry. Panics are written
// to log and passed to each of panicked.
func NewServer(handle fasthttp.RequestHandler, log *slog.Logger, panicked ...panics.Handler) *Server {
	return &Server{http: transport.NewServer(handle, transport.ServerOptions{
		Panicked: func(value any, stack []byte) {
			log.Error("BUG: panic", "panic", panics.Describe(value), "stack", string(stack))
			for _, hear := range panicked {
				hear(value, stack)
			}
		},
		Reserve: true, // for probes
		ErrorBody: func(status int, code string) []byte {
			if status == fasthttp.StatusServiceUnavailable {
				return tenant.ErrorJSON(transport.Message(code), tenant.ErrorTypeServer, code, "")
			}
			return tenant.ErrorJSON("The request could not be read.", tenant.ErrorTypeRequest, code, "")
		},
	})}
}

// Serve answers requests on ln until Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); err != nil {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown stops listening and lets open requests finish until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	return nil
}
