// Package proxy serves requests: it identifies the caller, rewrites the body of a chat, calls the
// upstream, relays the answer and reports what happened. All other requests are relayed unchanged.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/cacheguard"
	"sidenote/proxy/experiment"
	"sidenote/proxy/panics"
	"sidenote/proxy/record"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/toolcalls"
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
	tracing     *Tracing // nil: off
	modes       *tenant.Switch
	budgets     *budget.Meter
	bodies      BodyKeeper
	recorder    *record.Recorder // nil: no requests are recorded
	documents   CitedDocuments
	experiments *experiment.Store // nil: none
	raters      []FeedbackTaker
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
	refused      services.Memory       // parameters that the models of stages refused; see modelKey
	edits        services.Memory       // Sidenote's edits that models refused; see editsKey
	answers      *toolcalls.TurnMemory // ids of answers, for diagnoses of later turns
	shadows      chan struct{}
	samples      *Samples
	liars        sync.Map // [2]string{upstream, answer.UsageFinding} → true once a usage that cannot be true was reported
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
	all := report.Recorders{metrics}
	var raters []FeedbackTaker
	if cfg.Experiments != nil {
		all, raters = append(all, cfg.Experiments), append(raters, cfg.Experiments)
	}
	if cfg.Recorder != nil {
		raters = append(raters, cfg.Recorder)
	}
	s := &Server{
		metrics:     metrics,
		records:     append(all, records...),
		tracing:     cfg.Tracing,
		modes:       cfg.Switch,
		budgets:     cfg.Budgets,
		bodies:      cfg.Bodies,
		recorder:    cfg.Recorder,
		documents:   cfg.Documents,
		experiments: cfg.Experiments,
		raters:      raters,
		log:         log,
		concurrency: int64(cfg.Concurrency),
		timeouts:    cfg.Timeouts,
		raw:         cfg.raw.upstreams,
		parsers:     sync.Pool{New: func() any { return new(chat.Parser) }},
	}
	if s.concurrency <= 0 {
		s.concurrency = DefaultConcurrency
	}
	s.memory.Check()
	s.shadows = make(chan struct{}, max(1, s.concurrency/shadowShare))
	s.answers = toolcalls.NewTurnMemory(maxAnswers)
	s.samples, s.decoders = newSamples(&s.work), make(chan struct{}, maxDecoders)
	first, err := s.newSetup(cfg, rw, nil)
	if err != nil {
		return nil, err
	}
	s.recorder.CountCitations(s.countCitations)
	s.setup.Store(first)
	metrics.WatchCaches(s.PromptCaches)
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
// Sidenote's key for an upstream. It returns nil if there is no such key.
func keyHeaders(u Upstream) []transport.Header {
	key := u.APIKey.Reveal()
	if key == "" {
		return nil
	}
	lines := []transport.Header{{Name: "Authorization"}, {Name: "Api-Key"}, {Name: "X-Api-Key"}, {Name: "Cookie"}}
	switch cmp.Or(u.KeyHeader, VendorKeyHeader(u.BaseURL)) {
	case "api-key":
		lines[1].Value = key
	case "x-api-key":
		lines[2].Value = key
	default:
		lines[0].Value = "Bearer " + key
	}
	return lines
}

// VendorKeyHeader returns the header of API keys that the vendor at a base URL takes, as in
// Upstream.KeyHeader.
func VendorKeyHeader(base *url.URL) string {
	switch host := strings.ToLower(base.Hostname()); {
	case strings.HasSuffix(host, ".azure.com"):
		return "api-key"
	case strings.HasSuffix(host, ".anthropic.com"):
		return "x-api-key"
	}
	return "authorization"
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

// A Config is the configuration of a Server; New checks it.
type Config struct {
	Upstreams   map[string]Upstream
	Tenants     tenant.Tenants
	Concurrency int                  // requests served at once; more get a 503
	Connections int                  // clients' connections open at once; more get a 503. 0: the default of transport.ServerOptions
	Addresses   *transport.Addresses // counts connections by address; may be nil
	Timeouts    Timeouts
	Switch      *tenant.Switch    // may lower the modes of policies; may be nil
	Budgets     *budget.Meter     // counts the usage of tenants; nil if nothing is limited
	Recorder    *record.Recorder  // records chats; may be nil
	Bodies      BodyKeeper        // gets the bodies of chats; may be nil
	Documents   CitedDocuments    // looks up cited documents
	Planners    *Planners         // plan searches if policies ask for it; nil: no planning
	Outputs     StageOutputs      // caches the outputs of stages if policies ask for it; nil: no cache
	Chains      Chains            // remembers conversations that upstreams hold; nil: nothing is remembered
	Given       GivenSources      // remembers the sources of turns if policies repeat them; nil: nothing is remembered
	Tools       *RoundsKit        // runs tool calls of models if policies offer tools; nil: no tools
	Tracing     *Tracing          // makes spans; nil: no spans
	Experiments *experiment.Store // of policies; nil: all requests get policy A

	raw struct{ clients, upstreams transport.Raw } // set by tests, to inject faults into connections
}

// Timeouts are the time limits of a Server. None of them limits the duration of a whole answer,
// which may be a stream. A zero field means the value of DefaultTimeouts.
type Timeouts struct {
	Connect     time.Duration // to the upstream, including TLS
	FirstByte   time.Duration // from the end of the request to the head of the answer
	Idle        time.Duration // between two reads of an answer
	ClientWrite time.Duration // a client that reads nothing is disconnected after this time, or at most twice this time
	ClientRead  time.Duration // for a request head, for each 256 KiB of a buffered body, and between two reads of a streamed body
	ClientIdle  time.Duration // of a kept-alive connection between requests
}

// DefaultTimeouts returns the default timeouts. FirstByte is ten minutes, as in official SDKs.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Connect: 5 * time.Second, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute,
		ClientWrite: time.Minute, ClientRead: time.Minute, ClientIdle: 2 * time.Minute,
	}
}

func (t Timeouts) orDefaults() Timeouts {
	d := DefaultTimeouts()
	return Timeouts{
		Connect: cmp.Or(t.Connect, d.Connect), FirstByte: cmp.Or(t.FirstByte, d.FirstByte), Idle: cmp.Or(t.Idle, d.Idle),
		ClientWrite: cmp.Or(t.ClientWrite, d.ClientWrite), ClientRead: cmp.Or(t.ClientRead, d.ClientRead), ClientIdle: cmp.Or(t.ClientIdle, d.ClientIdle),
	}
}

// A setup is the part of the configuration that requests read. It is immutable: Reload replaces
// it, and a request keeps the setup that it began with.
type setup struct {
	tenants   *tenant.Directory
	upstreams map[string]*backend
	serving   map[string]bool // the upstreams that serve requests of tenants
	rewriter  *rewrite.Rewriter
	planners  *Planners    // nil: nothing is planned
	tools     *RoundsKit   // nil: no tools are offered
	outputs   StageOutputs // nil: none are cached
	chains    Chains       // nil: nothing is remembered
	given     GivenSources // likewise
	guard     *cacheguard.Guard
}

// A backend is a configured upstream with its client.
type backend struct {
	name    string
	client  *transport.Bases
	of      clientConfig       // the configuration of client
	noUsage bool               // do not ask for the usage of its streams
	replace []transport.Header // header lines with Sidenote's key for the upstream; nil relays the client's credentials
}

// A clientConfig is the configuration of an upstream's client. Upstreams with equal clientConfigs
// can share a client.
type clientConfig struct {
	Upstream // without its key, which is sent with each request
	timeouts Timeouts
}

// equal reports whether c and d describe the same client.
func (c clientConfig) equal(d clientConfig) bool {
	same := c.Dial.Equal(d.Dial) && slices.EqualFunc(c.Others, d.Others, UpstreamBase.Equal)
	c.Dial, d.Dial = transport.OutboundOptions{}, transport.OutboundOptions{}
	c.Others, d.Others = nil, nil
	return same && reflect.DeepEqual(c, d)
}

// A retired is the client of an upstream that a reload removed or changed. Earlier requests may
// still use it. Each of its connections is closed when the answer on it has ended.
type retired struct {
	client *transport.Bases
	since  time.Time
}

// retiredFor is how long a retired client is kept at least: longer than it takes to read the body
// of a request that may still use it. Shutdown closes the clients that are kept.
const retiredFor = time.Hour

// Reload replaces, all at once, the Rewriter by rw and these parts of the configuration by those of
// cfg: Upstreams, Tenants, Planners, Tools, Outputs, Chains, Given, and the timeouts for upstreams. Earlier requests
// keep theirs. Other fields of cfg are ignored. After an error nothing has changed.
func (s *Server) Reload(cfg Config, rw *rewrite.Rewriter) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	old := s.setup.Load()
	next, err := s.newSetup(cfg, rw, old)
	if err != nil {
		return err
	}
	s.setup.Store(next)
	now, used := time.Now(), map[*transport.Bases]bool{}
	for _, b := range next.upstreams {
		used[b.client] = true
	}
	kept := s.retired[:0:0]
	for _, r := range s.retired {
		if r.client.Busy() > 0 || now.Sub(r.since) < retiredFor {
			kept = append(kept, r)
		}
	}
	for _, b := range old.upstreams {
		if !used[b.client] {
			b.client.Retire()
			kept = append(kept, retired{b.client, now})
		}
	}
	s.retired = kept
	return nil
}

// newSetup checks cfg and returns its setup. It reuses the unchanged clients of old, which may be
// nil.
func (s *Server) newSetup(cfg Config, rw *rewrite.Rewriter, old *setup) (*setup, error) {
	next := &setup{tenants: tenant.NewDirectory(cfg.Tenants), upstreams: make(map[string]*backend, len(cfg.Upstreams)), serving: map[string]bool{}, rewriter: rw, planners: cfg.Planners, tools: cfg.Tools, outputs: cfg.Outputs, chains: cfg.Chains, given: cfg.Given, guard: cacheguard.New()}
	for name, u := range cfg.Upstreams {
		var before *backend
		if old != nil {
			before = old.upstreams[name]
		}
		b, err := s.newBackend(name, u, cfg.Timeouts.orDefaults(), before)
		if err != nil {
			return nil, err
		}
		next.upstreams[name] = b
	}
	for tenant, p := range next.tenants.Policies() {
		if next.upstreams[p.Upstream] == nil {
			return nil, fmt.Errorf("tenant %q: upstream %q is not configured", tenant, p.Upstream)
		}
		next.serving[p.Upstream] = true
		if err := next.serveStages(tenant, p); err != nil {
			return nil, err
		}
	}
	return next, checkBudgets(next.tenants.Policies(), s.budgets)
}

// serveStages notes which upstreams the stages of a tenant's policies use.
func (s *setup) serveStages(tenant string, p *tenant.Policy) error {
	for one := range p.All {
		for _, stage := range one.Stages.Stages {
			if stage.Upstream != "" && s.upstreams[stage.Upstream] == nil {
				return fmt.Errorf("tenant %q: upstream %q of stage %q is not configured", tenant, stage.Upstream, stage.Name)
			}
			s.serving[cmp.Or(stage.Upstream, one.Upstream)] = true
		}
	}
	return nil
}

func (s *Server) newBackend(name string, u Upstream, t Timeouts, before *backend) (*backend, error) {
	t.Connect, t.FirstByte, t.Idle = cmp.Or(u.Timeouts.Connect, t.Connect), cmp.Or(u.Timeouts.FirstByte, t.FirstByte), cmp.Or(u.Timeouts.Idle, t.Idle)
	t.ClientRead, t.ClientWrite, t.ClientIdle = s.timeouts.ClientRead, s.timeouts.ClientWrite, s.timeouts.ClientIdle
	of := clientConfig{u, t}
	of.APIKey = Secret{}
	if before != nil && before.of.equal(of) {
		return &backend{name: name, client: before.client, of: of, noUsage: u.NoUsageOption, replace: keyHeaders(u)}, nil
	}
	var bases []transport.Config
	for _, base := range append([]UpstreamBase{{u.BaseURL, u.Dial}}, u.Others...) {
		bases = append(bases, transport.Config{
			BaseURL: base.BaseURL, Dial: base.Dial,
			Connect: t.Connect, FirstByte: t.FirstByte, Idle: t.Idle,
			ClientRead: t.ClientRead, ClientWrite: t.ClientWrite,
			Panicked: s.panicked, Raw: s.raw,
		})
	}
	client, err := transport.NewBases(bases...)
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", name, err)
	}
	return &backend{name: name, client: client, of: of, noUsage: u.NoUsageOption, replace: keyHeaders(u)}, nil
}

// closeClients closes the connections to all upstreams.
func (s *Server) closeClients() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	for _, b := range s.setup.Load().upstreams {
		b.client.Close()
	}
	for _, r := range s.retired {
		r.client.Close()
	}
}

// serverErrorBody returns the body of the response to a request that could not be read, or to a
// connection for which there was no room. Handle does not see these.
func serverErrorBody(status int, code string) []byte {
	kind, message := tenant.ErrorTypeRequest, "The request could not be read: "+strings.ReplaceAll(code, "_", " ")+"."
	if status >= 500 {
		kind = tenant.ErrorTypeServer
	}
	if status == fasthttp.StatusServiceUnavailable {
		message = transport.Message(code)
	}
	return tenant.ErrorJSON(message, kind, code, "")
}

// serverErrorHead returns Sidenote's header lines for such a response, which has no Report.
func serverErrorHead(code string) []transport.Header {
	return []transport.Header{
		{Name: report.HeaderID, Value: report.NewID(time.Now())},
		{Name: report.HeaderStatus, Value: "refused; reason=" + strings.ReplaceAll(code, "_", "-")},
	}
}

// callError returns the error that the client gets for an error of an upstream call or of its
// preparation.
func (s *Server) callError(err error) error {
	if transport.ClassOf(err) == "" {
		return err
	}
	return s.transportError(err)
}

// transportError returns the error that the client gets for an error of package transport.
func (s *Server) transportError(err error) error {
	switch transport.ClassOf(err) {
	case transport.ClientGone, transport.ClientSlow:
		return errClientGone
	case transport.Internal:
		return errPanic
	case transport.NoRoom:
		return s.noRoom()
	}
	return tenant.TransportError(err)
}
