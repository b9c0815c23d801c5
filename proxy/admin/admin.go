// Package admin serves the admin port: dry runs of rewrites, searches (also in the shape of
// OpenAI's vector stores), the management of knowledge bases, metrics and probes. No request to it
// can reach an upstream or choose a path on the disk.
package admin

import (
	"context"
	"crypto/sha256"
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
	Rewriter  *rewrite.Rewriter
	Assembler *rewrite.Assembler // builds messages from typed chunks; nil disables that endpoint
	Planners  *proxy.Planners    // for dry runs; nil disables planning
	Tenants   *tenant.Directory
	Lookup    *explain.Knowledge // searches and reads
	Library   Library            // content for the vector-store endpoints; nil disables them
	Manager   Manager            // manages bases; nil disables those endpoints
	Explain   *explain.Ring      // the last requests; nil if none are kept
	Overview  *explain.Recorder  // counts of the last hour; nil disables that endpoint
	Tools     *tools.Box         // runs tools; nil disables those endpoints
	Usage     budget.Reporter    // usage of tenants; nil disables that endpoint
	Months    usage.Reader       // usage of tenants by month; nil: it is not told
	Modes     *tenant.Switch     // lowers the modes of tenants; nil disables that endpoint
	Reload    Reload             // reloads the configuration; nil disables that endpoint
	Inspector Inspector          // pages for people; nil disables them
	Hosts     []string           // names by which this port may be called, besides localhost and addresses

	// Callers send tokens as bearer tokens. If both Token and ReadToken are empty, reads need
	// none.
	Token     proxy.Secret // for everything; probes need none
	ReadToken proxy.Secret // for reads only
	// StateToken returns the token of the state folder, which writes need if Token is empty, or
	// why there is none. It may be nil.
	StateToken func() (string, error)

	keys keyList // of Tenants
}

// An Inspector serves the pages of the admin port.
type Inspector interface {
	// Answer answers a request and returns true, unless there is nothing at its path. Host and
	// Origin have been checked. If admitted is false, the caller may read only after signing in
	// with one of the tokens. tokens returns the SHA-256 digests of those that allow reading, and of
	// those among them that allow writing.
	Answer(ctx *fasthttp.RequestCtx, admitted bool, tokens func() (read, write [][sha256.Size]byte)) bool
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
	public bool   // needs no token
	signed bool   // its handler checks a signature, which no page of a browser can make
	write  bool   // changes state
	form   bool   // a write that takes multipart/form-data besides JSON
	handle func(*fasthttp.RequestCtx) error
}

func (t Telemetry) endpoint(path string) (endpoint, bool) {
	e, ok := map[string]endpoint{
		"/metrics": {method: "GET", handle: t.metrics},
		"/healthz": {method: "GET", public: true, handle: t.healthz},
		"/readyz":  {method: "GET", public: true, handle: t.readyz},
	}[path]
	return e, ok
}

func (h *Handler) endpoint(path string) (endpoint, bool) {
	if e, ok := map[string]endpoint{
		"/v1/rewrite":     {method: "POST", handle: h.rewrite},
		"/v1/search":      {method: "POST", handle: h.search},
		"/v1/read":        {method: "POST", handle: h.read},
		"/v1/calibration": {method: "GET", handle: h.calibration},
		KeysPath:          {method: "GET", handle: func(ctx *fasthttp.RequestCtx) error { return h.keys.answer(ctx, h.Tenants) }},
		ProofPath:         {method: "GET", public: true, handle: h.proof},
	}[path]; ok {
		return e, true
	}
	if path == "/v1/context" && h.Assembler != nil {
		return endpoint{method: "POST", handle: h.context}, true
	}
	if path == OverviewPath && h.Overview != nil {
		return endpoint{method: "GET", handle: func(ctx *fasthttp.RequestCtx) error { return overviewed(h, ctx) }}, true
	}
	if id, ok := strings.CutPrefix(path, ExplainPath); ok && id != "" {
		return endpoint{method: "GET", handle: func(ctx *fasthttp.RequestCtx) error { return explained(h, ctx, id) }}, true
	}
	return h.Telemetry.endpoint(path)
}

// Handle answers one request, if it is allowed.
func (h *Handler) Handle(ctx *fasthttp.RequestCtx) {
	e, ok := h.endpoint(string(ctx.Path()))
	// Not decoded, because the id of a document may contain any character.
	if !ok && h.Library != nil {
		e, ok = h.storeEndpoint(string(ctx.URI().PathOriginal()))
	}
	if !ok && h.Manager != nil {
		e, ok = management{Manager: h.Manager}.endpoint(string(ctx.Method()), string(ctx.URI().PathOriginal()))
	}
	if !ok && h.Modes != nil && string(ctx.Path()) == ModePath {
		e, ok = switching{h.Modes, h.Tenants}.endpoint(string(ctx.Method())), true
	}
	if !ok && h.Reload != nil && string(ctx.Path()) == ReloadPath {
		e, ok = endpoint{method: "POST", write: true, handle: h.Reload.answer}, true
	}
	if !ok && h.Tools != nil {
		e, ok = tooling{h}.endpoint(string(ctx.Path()))
	}
	if !ok && h.Usage != nil {
		e, ok = usageEndpoints{h.Usage, h.Months, h.Tenants, h.Overview}.endpoint(string(ctx.Path()))
	}
	if err := h.admit(ctx, e, ok); err != nil {
		refuse(ctx, err)
		return
	}
	if !ok && h.Inspector != nil && h.Inspector.Answer(ctx, mayRead(h, h.rightOf(ctx)), h.digests) {
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
	tenant.AsError(err).Write(ctx, chat.Completions)
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
