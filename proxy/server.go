// Package proxy serves requests: it identifies the caller, rewrites the body of a chat, calls the
// upstream, relays the answer and reports what happened. All other requests are relayed unchanged.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
)

const (
	// DefaultConcurrency is the number of requests served at once if the configuration sets none.
	DefaultConcurrency = 1024
	// DefaultMaxRewriteBytes is the default of Policy.MaxRewriteBytes: enough for a chat with
	// images.
	DefaultMaxRewriteBytes = 32 << 20

	shadowShare = 8           // shadow work may run for one in eight of the concurrent requests
	cutWait     = time.Second // how long Shutdown waits for answers that it cut
)

// A Server serves the data port. It is made by New.
type Server struct {
	setup       atomic.Pointer[setup]
	reloading   sync.Mutex // held to change setup and retired
	retired     []retired
	metrics     *report.Metrics
	records     report.Recorder
	modes       *tenant.Switch
	budgets     *budget.Meter
	bodies      BodyKeeper
	documents   CitedDocuments
	log         *slog.Logger
	concurrency int64
	timeouts    Timeouts
	raw         transport.Raw // of upstreams, in tests
	http        *transport.Server

	base         context.Context // ends when requests and shadow work must stop
	stop         context.CancelFunc
	draining     atomic.Bool  // Drain was called
	shuttingDown atomic.Bool  // Shutdown was called
	openRequests atomic.Int64 // requests whose answers have not ended
	memory       memoryWatch
	refused      services.Memory // parameters that the models of stages refused; see modelKey
	edits        services.Memory // Sidenote's edits that models refused; see editsKey
	shadows      chan struct{}
	samples      *Samples
	windows      sync.Map // [2]string{upstream, row of the model table} → true once its served window was reported
	readers      answer.UsagePool
	decoders     chan struct{}
	exchanges    sync.Pool      // of *exchange
	parsers      sync.Pool      // of *rewrite.Parser
	work         sync.WaitGroup // open requests, shadow work and learning
}

// New checks cfg and returns a server that does not listen yet. Every Report goes to
// metrics and then to records; failures and bugs are written to log.
func New(cfg Config, rw *rewrite.Rewriter, metrics *report.Metrics, log *slog.Logger, records ...report.Recorder) (*Server, error) {
	cfg.Timeouts = cfg.Timeouts.orDefaults()
	s := &Server{
		metrics:     metrics,
		records:     append(report.Recorders{metrics}, records...),
		modes:       cfg.Switch,
		budgets:     cfg.Budgets,
		bodies:      cfg.Bodies,
		documents:   cfg.Documents,
		log:         log,
		concurrency: int64(cfg.Concurrency),
		timeouts:    cfg.Timeouts,
		raw:         cfg.raw.upstreams,
		parsers:     sync.Pool{New: func() any { return new(rewrite.Parser) }},
	}
	if s.concurrency <= 0 {
		s.concurrency = DefaultConcurrency
	}
	s.memory.Check()
	s.shadows = make(chan struct{}, max(1, s.concurrency/shadowShare))
	s.samples, s.decoders = newSamples(&s.work), make(chan struct{}, maxDecoders)
	first, err := s.newSetup(cfg, rw, nil)
	if err != nil {
		return nil, err
	}
	s.setup.Store(first)
	s.base, s.stop = context.WithCancel(context.Background())
	s.http = transport.NewServer(s.Handle, transport.ServerOptions{
		Connections: cfg.Connections, Addresses: cfg.Addresses, Shed: metrics.Shed,
		Read: cfg.Timeouts.ClientRead, Idle: cfg.Timeouts.ClientIdle, Write: cfg.Timeouts.ClientWrite,
		ErrorBody: serverErrorBody, ErrorHead: serverErrorHead,
		Panicked: s.panicked, Raw: cfg.raw.clients,
	})
	return s, nil
}

// panicked counts and logs a panic outside of a request. It is a panics.Handler.
func (s *Server) panicked(value any, stack []byte) { s.bug("", value, stack) }

// bug counts a panic and logs it with the id of the request that it happened in.
func (s *Server) bug(id string, value any, stack []byte) {
	s.metrics.Panicked(value, stack)
	s.log.Error("BUG: panic", "id", id, "panic", panics.Describe(value), "stack", string(stack))
}

// keyHeaders returns the header lines that replace the client's credentials, including cookies, by
// Sidenote's key for an upstream. It returns nil if there is no such key. Azure takes the key as
// api-key.
func keyHeaders(u Upstream) []transport.Header {
	key := u.APIKey.Reveal()
	switch {
	case key == "":
		return nil
	case strings.HasSuffix(u.BaseURL.Hostname(), ".azure.com"):
		return []transport.Header{{Name: "Api-Key", Value: key}, {Name: "Authorization"}, {Name: "X-Api-Key"}, {Name: "Cookie"}}
	}
	return []transport.Header{{Name: "Authorization", Value: "Bearer " + key}, {Name: "Api-Key"}, {Name: "X-Api-Key"}, {Name: "Cookie"}}
}

// Serve answers requests on ln until Shutdown, and then returns nil.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); err != nil && !s.shuttingDown.Load() {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Drain closes each client's connection after its next answer, so that the client reconnects,
// maybe to another replica. Requests are still served. Call it some time before Shutdown.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown stops listening and waits for open requests until ctx ends; new requests on open
// connections get a 503. When ctx ends, open answers are cut in a way that clients notice, and
// ctx's error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shuttingDown.Store(true)
	err := s.http.Shutdown(ctx)
	if err == nil {
		err = s.wait(ctx)
	}
	s.closeClients()
	s.stop()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("shut down: %w", err)
	if s.waitCut(ctx) != nil { // for instance, a client does not read its answer
		s.http.Cut()
		err = errors.Join(err, s.waitCut(ctx))
	}
	return err
}

// waitCut waits up to cutWait for the answers that were cut to end.
func (s *Server) waitCut(ctx context.Context) error {
	moment, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutWait)
	defer cancel()
	return s.wait(moment)
}

// wait returns when no request and no shadow work is open, or with ctx's error.
func (s *Server) wait(ctx context.Context) error {
	done := make(chan struct{})
	panics.Go(s.panicked, s.work.Wait, func() { close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
