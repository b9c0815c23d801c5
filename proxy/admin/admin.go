// Package admin is the second listener: dry runs of rewrites, searches (also in
// the shape of OpenAI's vector stores), the management of knowledge bases, metrics and
// probes. Nothing on it reaches or chooses an upstream, or a path on the disk.
package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"sidenote/proxy"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

const (
	maxBody  = 32 << 20 // as the data port rewrites by default
	bodyWait = 30 * time.Second
)

// A Handler answers on the admin port. It is read-only after its fields are set.
type Handler struct {
	Telemetry
	Rewriter  *rewrite.Rewriter // whose Retriever answers searches too
	Tenants   *proxy.Directory
	Knowledge func() []string // ids of all bases at this moment
	Library   Library         // what the vector-store endpoints show of them; nil shows nothing
	Keeper    Keeper          // manages them; nil does not
	Token     proxy.Secret    // asked for as a bearer token, but by probes; "" asks for none
	Hosts     []string        // names by which this port may be called, beside localhost and addresses

	// StateToken returns the token of the state folder, or says why there is none. It
	// may be nil.
	StateToken func() (string, error)
}

// A Telemetry answers /metrics, /healthz and /readyz and nothing else, without a
// token: for a listener that scrapers and probes can reach.
type Telemetry struct {
	Metrics prometheus.Gatherer
	Ready   func() []string // why not, one line each; none or nil func: ready
	Trouble func() []string // what requests have to do without meanwhile; likewise
}

// An endpoint is what answers on one path.
type endpoint struct {
	method string // GET includes HEAD
	open   bool   // no token
	handle func(*fasthttp.RequestCtx) error
}

func (t Telemetry) endpoint(path string) (endpoint, bool) {
	switch path {
	case "/metrics":
		return endpoint{method: "GET", handle: t.metrics}, true
	case "/healthz":
		return endpoint{method: "GET", open: true, handle: t.healthz}, true
	case "/readyz":
		return endpoint{method: "GET", open: true, handle: t.readyz}, true
	}
	return endpoint{}, false
}

func (h *Handler) endpoint(path string) (endpoint, bool) {
	switch path {
	case "/v1/rewrite":
		return endpoint{method: "POST", handle: h.rewrite}, true
	case "/v1/search":
		return endpoint{method: "POST", handle: h.search}, true
	case "/v1/calibration":
		return endpoint{method: "GET", handle: h.calibration}, true
	case ProofPath:
		return endpoint{method: "GET", open: true, handle: h.proof}, true
	}
	return h.Telemetry.endpoint(path)
}

// Handle answers one request. It first refuses what a web page could have sent
// through somebody's browser: another host's name (DNS rebinding) or origin. Who
// has the token may call by any name, as other Sidenotes do: no page has it.
func (h *Handler) Handle(ctx *fasthttp.RequestCtx) {
	if host := string(ctx.Host()); !h.knownHost(host) && !(h.Token.Reveal() != "" && h.authorized(ctx)) {
		fail(ctx, fasthttp.StatusMisdirectedRequest, "unknown_host", fmt.Sprintf("The admin port is not known as %q; call it localhost or by its IP address, or send the admin token as a bearer token.", host))
		return
	}
	if origin := string(ctx.Request.Header.Peek("Origin")); origin != "" {
		if !h.knownOrigin(origin, string(ctx.Host())) {
			fail(ctx, fasthttp.StatusForbidden, "foreign_origin", fmt.Sprintf("Pages of %q may not call the admin port.", origin))
			return
		}
	}
	e, ok := h.endpoint(string(ctx.Path()))
	// The path as it was sent: a document's id may hold any character.
	if !ok && h.Library != nil {
		e, ok = h.storeEndpoint(string(ctx.URI().PathOriginal()))
	}
	if !ok && h.Keeper != nil {
		e, ok = h.knowledgeEndpoint(string(ctx.Method()), string(ctx.URI().PathOriginal()))
	}
	if ok && !e.open && !h.authorized(ctx) {
		(&proxy.Error{Reason: proxy.ReasonKey, Message: "The admin token is missing or wrong; send it in the header Authorization as a bearer token."}).Write(ctx)
		return
	}
	serve(ctx, e, ok)
}

// Handle answers one request.
func (t Telemetry) Handle(ctx *fasthttp.RequestCtx) {
	e, ok := t.endpoint(string(ctx.Path()))
	serve(ctx, e, ok)
}

func serve(ctx *fasthttp.RequestCtx, e endpoint, ok bool) {
	method := string(ctx.Method())
	switch {
	case !ok:
		fail(ctx, fasthttp.StatusNotFound, "not_found", fmt.Sprintf("There is nothing at %s.", ctx.Path()))
		return
	case method != e.method && (e.method != "GET" || method != "HEAD"):
		fail(ctx, fasthttp.StatusMethodNotAllowed, "method_not_allowed", fmt.Sprintf("%s takes %s.", ctx.Path(), e.method))
		ctx.Response.Header.Set("Allow", e.method)
		return
	}
	if err := e.handle(ctx); err != nil {
		var refusal *Refusal
		if errors.As(err, &refusal) {
			refusal.write(ctx)
			return
		}
		proxy.AsError(err).Write(ctx)
	}
}

// fail answers with an error that only this port has.
func fail(ctx *fasthttp.RequestCtx, status int, code, message string) {
	ctx.Response.Reset()
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(proxy.ErrorJSON(message, "invalid_request_error", code, ""))
}

// knownHost tells whether host, a name or address with or without a port, may
// stand for this listener. An address always may: what a page can be rebound to
// us with is a name.
func (h *Handler) knownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(h.Hosts, host)
}

// knownOrigin tells whether pages of origin may call this listener by the name
// host: its own pages, and those of this machine or of a listed name. Another
// machine's address is foreign here, for anybody's page can be served from one.
func (h *Handler) knownOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	if strings.EqualFold(u.Host, host) {
		return true
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return addr.IsLoopback()
	}
	return h.knownHost(u.Host)
}

// authorized compares digests, so that time tells nothing of the token, its
// length included.
func (h *Handler) authorized(ctx *fasthttp.RequestCtx) bool {
	want := h.Token.Reveal()
	if want == "" {
		return true
	}
	const scheme = "bearer "
	got := ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)
	if len(got) < len(scheme) || !bytes.EqualFold(got[:len(scheme)], []byte(scheme)) {
		return false
	}
	a, b := sha256.Sum256([]byte(want)), sha256.Sum256(bytes.TrimSpace(got[len(scheme):]))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// body reads a request's whole body.
func body(ctx *fasthttp.RequestCtx) ([]byte, error) {
	b, whole, err := transport.ReadBody(ctx, maxBody, bodyWait, nil)
	switch {
	case transport.ClassOf(err) == transport.ClientLate:
		return nil, &proxy.Error{Reason: proxy.ReasonBodySlow, Message: "The body of the request came too slowly; try again.", Err: err}
	case err != nil:
		return nil, &proxy.Error{Reason: proxy.ReasonBodyRead, Message: "The body of the request did not arrive whole.", Err: err}
	case !whole:
		ctx.SetConnectionClose()
		return nil, &proxy.Error{Reason: rewrite.ReasonTooLarge, Message: fmt.Sprintf("The body is larger than %d bytes.", maxBody)}
	}
	return b, nil
}

// A Server is a listener of this package.
type Server struct{ http *transport.Server }

// NewServer returns a server for the Handle of a Handler or a Telemetry.
func NewServer(handle fasthttp.RequestHandler, log *slog.Logger) *Server {
	return &Server{http: transport.NewServer(handle, transport.ServerOptions{
		Panicked: func(value any, stack []byte) { log.Error("BUG: panic", "panic", value, "stack", string(stack)) },
		ErrorBody: func(_ int, code string) []byte {
			return proxy.ErrorJSON("The request could not be read.", "invalid_request_error", code, "")
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

// Shutdown stops listening and lets open requests end while ctx lasts.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("shut down: %w", err)
	}
	return nil
}
