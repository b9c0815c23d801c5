package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/valyala/fasthttp"

	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/proxy/transport/tcp"
	"sidenote/rewrite"
)

// Path is the path of the MCP endpoint.
const Path = "/mcp"

// Limits of a Server. Tool arguments are limited to 64 KiB elsewhere.
const (
	maxBody = 1 << 20
	maxHead = 32 << 10

	headWait    = 10 * time.Second
	requestWait = time.Minute // for a request and its answer
	idleWait    = 2 * time.Minute
)

// Options are the settings of a Server.
type Options struct {
	Knowledge Knowledge
	Callers   func() *tenant.Directory // identifies callers; may return a new directory after a reload
	Switch    *tenant.Switch           // may lower the modes of policies; may be nil
	Refused   func(Refusal)            // called for each refused request; may be nil

	Connections int                  // maximum at once, see transport.Set.MakeRoom; more get a 503. 0: the MCP share of tcp.SharesOf
	Addresses   *transport.Addresses // counts connections by client address; may be nil
	Shed        func(reason string)  // called for each connection closed to make room, see transport.Gate; may be nil
}

// A Refusal is a request that was refused before any tool was called.
type Refusal struct {
	Error  *tenant.APIError
	Tenant string // "" if the caller was refused
	Denied string // why the caller was refused, for the log
}

// A Server serves callers over HTTP (streamable HTTP, without streams: each answer is one JSON
// object). Callers are identified at each request, as on the data port. A session belongs to a
// tenant and is unknown to others.
type Server struct {
	options  Options
	sessions *sessions
	kept     http.Handler // for clients that use sessions
	single   http.Handler // for clients that do not
	http     http.Server
	conns    transport.Set[*clientConn]
}

// NewServer returns a server that does not listen yet.
func NewServer(o Options) *Server {
	s := &Server{options: o}
	s.conns.MaxConnections, s.conns.Addresses = cmp.Or(o.Connections, tcp.SharesOf(tcp.DescriptorLimit()).MCP), o.Addresses
	k := &s.options.Knowledge
	s.sessions = newSessions(func(newID func() string) *sdk.Server { return k.server(callerIn, newID) })
	of := func(r *http.Request) *sdk.Server { return s.sessions.of(callerOf(r.Context()).Policy.Tenant) }
	// Identifying the caller has already checked the host.
	s.kept = identified(sdk.NewStreamableHTTPHandler(of, &sdk.StreamableHTTPOptions{
		JSONResponse: true, SessionTimeout: sessionIdle, DisableLocalhostProtection: true,
	}))
	s.single = identified(sdk.NewStreamableHTTPHandler(of, &sdk.StreamableHTTPOptions{
		JSONResponse: true, Stateless: true, DisableLocalhostProtection: true, PropagateRequestCancellation: true,
	}))
	s.http = http.Server{
		Handler: s, ErrorLog: log.New(io.Discard, "", 0), // it would quote what clients send
		ReadHeaderTimeout: headWait, ReadTimeout: requestWait, WriteTimeout: requestWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHead,
		ConnState:   connState,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	return s
}

// Sessions returns the number of open sessions.
func (s *Server) Sessions() int { return s.sessions.count() }

// Serve answers requests on ln, which may be a *transport.Listener, until Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	port, ok := ln.(*transport.Listener)
	if !ok {
		port = &transport.Listener{Listener: ln}
	}
	l := &listener{server: s, Gate: transport.NewGate(port, transport.GateOptions{
		MaxConnections: s.conns.MaxConnections, Crowd: &s.conns, Refusal: refusal, Shed: s.options.Shed, Panicked: s.options.Knowledge.Panicked,
	})}
	defer l.Wait()
	s.http.BaseContext = func(net.Listener) context.Context {
		return context.WithValue(context.Background(), portKey{}, port)
	}
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Shutdown stops listening, lets calls end while ctx lasts, and ends all sessions.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("shut down: %w", err), s.http.Close())
	}
	s.sessions.close()
	return err
}

// ServeHTTP answers a request if its caller is permitted.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer panics.Recover(s.options.Knowledge.Panicked, func() { w.WriteHeader(http.StatusInternalServerError) })
	now := time.Now()
	conn := clientConnOf(r.Context().Value(connKey{}).(net.Conn))
	conn.refused.Store(false)
	caller, err := s.identify(r, now)
	if err != nil {
		conn.refused.Store(true)
		s.refuse(w, err, caller)
		return
	}
	id := r.Header.Get("Mcp-Session-Id")
	switch {
	case r.URL.Path != Path:
		fail(w, http.StatusNotFound, "not_found", "There is nothing at "+r.URL.Path+"; MCP is at "+Path+".")
		return
	case r.Method != http.MethodPost && r.Method != http.MethodDelete:
		w.Header().Set("Allow", "POST, DELETE")
		fail(w, http.StatusMethodNotAllowed, "method_not_allowed", Path+" accepts only POST and DELETE; the server sends nothing without a request.")
		return
	case id != "" && !s.sessions.use(id, caller.Policy.Tenant, now):
		fail(w, http.StatusNotFound, "session_not_found", "There is no such session; begin a new one.")
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		s.refuse(w, err, caller)
		return
	}
	caller.life = r.Context()
	handler := s.kept
	if r.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" { // that version has no sessions
		handler = s.single
	}
	handler.ServeHTTP(w, requestOf(r, caller, body))
}

// identify identifies the caller of a request.
func (s *Server) identify(r *http.Request, now time.Time) (*Caller, error) {
	sender := senderOf(r)
	who, err := s.options.Callers().Identify(sender, true, now)
	c := &Caller{By: who.By, Key: who.Key, denied: who.Denied()}
	if err != nil {
		return c, err
	}
	sender.Header.Del("Sidenote-Tenant") // already used to identify the caller
	asked, err := tenant.ReadHeaderOptions(sender.Header, false)
	if err != nil {
		return c, err
	}
	policy, _ := who.Policy.Limited(s.options.Switch, now)
	c.Name, c.Terms = policy.Name, &policy.Budget
	c.Policy, err = policy.Rewrite.Narrow(asked).WithClaims(who.Claims)
	return c, err
}

// senderOf converts a request for proxy.Directory.
func senderOf(r *http.Request) tenant.Sender {
	var h fasthttp.RequestHeader
	for name, values := range r.Header {
		for _, value := range values {
			h.Add(name, value)
		}
	}
	h.SetHost(r.Host)
	h.SetRequestURI(r.RequestURI)
	conn := r.Context().Value(connKey{}).(net.Conn)
	port := r.Context().Value(portKey{}).(*transport.Listener)
	secure, _ := conn.(*tls.Conn)
	return tenant.Sender{Header: &h, Peer: transport.InboundPeerOf(port, secure), Remote: conn.RemoteAddr(), Local: conn.LocalAddr()}
}

// readBody reads a whole body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large:
		return nil, &tenant.APIError{Reason: rewrite.ReasonTooLarge, Message: fmt.Sprintf("The body is larger than %d bytes.", maxBody)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &tenant.APIError{Reason: report.ReasonBodySlow, Message: "The body of the request came too slowly; try again."}
	case err != nil:
		return nil, &tenant.APIError{Reason: report.ReasonBodyRead, Message: "The body of the request did not arrive whole.", Err: err}
	case bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")):
		// A batch of 1 MiB could contain ten thousand calls.
		return nil, &tenant.APIError{Reason: rewrite.ReasonNotJSON, Message: "MCP has no batches; send one JSON object per request."}
	}
	return body, nil
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, err error, c *Caller) {
	e := tenant.AsError(err)
	if s.options.Refused != nil {
		s.options.Refused(Refusal{e, c.Policy.Tenant, c.denied})
	}
	e.WriteHTTP(w)
}

// fail answers with an error that only this port has.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(tenant.ErrorJSON(message, tenant.ErrorTypeRequest, code, "")) // a client that has left needs no answer
}

// Context keys: a connection, its port, and a request's caller.
type (
	connKey   struct{}
	portKey   struct{}
	callerKey struct{}
)

// requestOf returns the request for the SDK: without credentials, and with its caller.
func requestOf(r *http.Request, c *Caller, body []byte) *http.Request {
	r = r.Clone(context.WithValue(r.Context(), callerKey{}, c))
	for _, name := range []string{"Api-Key", "X-Api-Key", "Cookie"} {
		r.Header.Del(name)
	}
	r.Header.Set("Authorization", "Bearer identified") // see identified
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return r
}

func callerOf(ctx context.Context) *Caller { return ctx.Value(callerKey{}).(*Caller) }

// identified passes callers on to tools. The SDK passes nothing from a request to a tool except
// headers and the result of a token verifier, so the caller travels as a verified token.
func identified(h http.Handler) http.Handler {
	found := func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		c := callerOf(ctx)
		return &auth.TokenInfo{UserID: c.Policy.Tenant, Extra: map[string]any{callerExtra: c}}, nil
	}
	return auth.RequireBearerToken(found, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(h)
}

const callerExtra = "caller"

// callerIn returns the caller that identified passed on.
func callerIn(e *sdk.RequestExtra) *Caller { return e.TokenInfo.Extra[callerExtra].(*Caller) }
