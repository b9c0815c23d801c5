// Package server wires a Sidenote from its configuration: knowledge bases, caches, planners,
// embedders, budgets and the proxy. It also runs background work, such as reading folders and
// making vectors, and reports its health. No other package imports all of these.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache"
	"sidenote/cache/budget"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/audit"
	"sidenote/proxy/experiment"
	"sidenote/proxy/explain"
	"sidenote/proxy/inspector"
	"sidenote/proxy/record"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/proxy/transport/tcp"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/followup"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/store"
	"sidenote/retrieval/vectorstore"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
	"sidenote/rewrite/toolcalls"
)

// Options say what a process uses an engine for. The zero Options are for commands that only look
// at knowledge: folders are read into memory, other bases come from the state folder, and nothing
// is changed.
type Options struct {
	Keep    bool   // bases are written to the state folder, or followed there
	Address string // admin port, shown to other processes that want to write the state folder
	Vectors bool   // the state folder is opened for writing, but only for vectors: see Vectors
	Serve   bool   // requests are served without keeping anything: limits count in this process alone

	// Audit gets the lines of audit: stderr, and those that the file of the audit does not take. It
	// may be nil.
	Audit io.Writer
	// Log is called when a problem in the background begins and ends; it may be nil.
	Log func(level slog.Level, line string)
	// Used is called with the tokens sent to services. It may be nil, and may be called concurrently.
	Used func(use Use, tokens int64)
}

// An Engine holds everything that turns a request into sources, wired together.
type Engine struct {
	Config   *config.Config // the initial one; see Running
	Metrics  *report.Metrics
	Rewriter *rewrite.Rewriter
	Reader   *Reader
	Bases    *Bases
	Planners *proxy.Planners // of the initial configuration; nil: nothing is planned
	Reloader Reloader        // reads the configuration again; may be nil. Set it before AdminServer
	Tracing  *proxy.Tracing  // makes spans of requests; nil: none. Set it before DataServer

	// Turns returns the store of the parts of turns that clients do not see. The first call
	// creates it, which must be before the first request, since Redis is used once it has
	// answered.
	Turns func() *toolcalls.TurnStore
	// Outputs returns the cache of stage outputs. The first call creates it, as with Turns.
	Outputs func() *cache.StageOutputs
	// Chains returns the store of links. The first call creates it, as with Turns.
	Chains func() *cache.History[cache.Link]
	// Given returns the store of sources that are repeated. The first call creates it, as with Turns.
	Given func() *cache.History[*rewrite.EarlierSources]

	catalogue   *catalogue
	view        *storeView
	embedding   *EmbeddingService // nil without embeddings
	caches      *Caches
	planners    *Planners
	exchange    *Exchange         // nil without Redis
	explained   *explain.Ring     // nil if no requests are kept
	overview    *explain.Recorder // of the last hour
	records     *record.Recorder  // nil in a command, and without a state folder
	sessions    *inspector.Sessions
	keyUses     tenant.KeyUses
	budgets     *budgets          // nil in a command that does not serve
	experiments *experiment.Store // likewise
	modes       *tenant.Switch    // nil in a command

	lostModes  error // why the modes set before the start could not be read
	modesAside bool  // their file was renamed

	issuers  atomic.Pointer[Issuers]
	monitor  Monitor
	audit    *audit.Log
	tasks    *Tasks
	stopping atomic.Bool
	opened   atomic.Bool // every base was open once

	running   atomic.Pointer[config.Config] // the running configuration
	data      *proxy.Server                 // nil until DataServer
	addresses *transport.Addresses          // clients of the data ports and MCP; nil if not counted, or before DataServer
	admin     atomic.Pointer[admin.Handler] // nil until AdminServer
}

// metricNames returns the labels that metrics of a configuration may have.
func metricNames(cfg *config.Config) report.MetricNames {
	version, commit := Version()
	return report.MetricNames{
		Tenants: config.Texts(cfg.TenantNames()), Policies: Policies{Config: cfg}.Names(), Upstreams: config.Texts(cfg.UpstreamNames()), Knowledge: config.Texts(cfg.KnowledgeNames()), Stages: stageNames(cfg), Experiments: experimentNames(cfg),
		Version: version, Commit: commit,
		TenantSeries: report.TenantSeries{Off: cfg.Telemetry.Tenants.Series == config.Off, Top: int(cfg.Telemetry.Tenants.Top)}, NativeHistograms: cfg.Telemetry.NativeHistograms,
	}
}

// openCounts opens what a process that serves keeps of its requests: records, modes, budgets and the
// outcomes of experiments. A command opens none of them.
func (e *Engine) openCounts(o Options) (err error) {
	if o.Keep {
		e.records = openRecords(e.Config, e.monitor)
		e.openModes()
	}
	if !o.Keep && !o.Serve {
		return nil
	}
	if e.budgets, err = openBudgets(e.Running, e.caches.Changed, o.Keep, e.monitor, e.tasks); err != nil {
		return err
	}
	e.openExperiments(o.Keep)
	return nil
}

// New wires a checked configuration. It does not listen or index yet.
func New(ctx context.Context, cfg *config.Config, o Options) (*Engine, error) {
	reader, err := NewReader(cfg.State.Path)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = func(slog.Level, string) {}
	}
	if o.Used == nil {
		o.Used = func(Use, int64) {}
	}
	m := Monitor{Log: o.Log, Metrics: report.NewMetrics(metricNames(cfg))}
	m.Audit = openAudit(cfg, o.Audit, m)
	reader.neutralised = m.Neutralised
	m.TellOfCertificates(cfg)
	e := &Engine{
		Config: cfg, Metrics: m.Metrics, Reader: reader, monitor: m, audit: m.Audit,
		catalogue: &catalogue{}, overview: explain.NewRecorder(), sessions: inspector.NewSessions(),
	}
	e.running.Store(cfg)
	e.catalogue.named.Store(&map[string]retrieval.Base{})
	e.issuers.Store(NewIssuers(cfg, m.Log))
	if n := int(cfg.Explain.Keep); n > 0 {
		e.explained = explain.New(n, cfg.Explain.Bodies)
	}
	if e.caches, err = NewCaches(cfg, func() bool { return limitedOnRedis(e.Running()) }, m); err != nil {
		return nil, err
	}
	e.Turns, e.Outputs, e.Chains = sync.OnceValue(e.caches.Turns), sync.OnceValue(e.caches.Outputs), sync.OnceValue(e.caches.Chains)
	e.Given = sync.OnceValue(e.caches.Given)
	e.tasks = NewTasks(ctx, m.Panicked)
	if err := e.openCounts(o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	tracker := openCalibration(e)
	analysed := new(analysis.Recent)
	e.catalogue.group = &knowledge.Group{Base: e.catalogue.embedded, Analysed: analysed, Searched: m.Metrics.Searched, Start: e.tasks.Start, Wait: floorWait}
	e.embedding = NewEmbeddingService(e.Running, reader.counter, EmbeddingOptions{Log: o.Log, Counted: func(use, result string, tokens int) {
		m.Metrics.Embedding(use, result, tokens)
		o.Used(Use(use), int64(tokens))
	}})
	if e.embedding != nil {
		if e.catalogue.group.Questions, err = e.caches.Questions(e.embedding.Client); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	e.catalogue.together = e.caches.WithCache(e.catalogue.group, cache.Candidates)
	e.catalogue.remote = e.caches.WithCache(&vectorstore.Stores{Base: e.catalogue.store, Searched: m.Metrics.Searched}, cache.Candidates)
	e.catalogue.engines = e.caches.WithCache(&engine.Bases{Base: e.catalogue.inEngine}, cache.Candidates)
	e.view = newStoreView(e.catalogue, analysed.HasTerms, func(id string) retrieval.Reason { return e.Bases.unready(id) })
	if err := e.openBases(ctx, o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	pipeline := &retrieval.Pipeline{Bases: e.catalogue.retriever, Joint: e.catalogue.joint, Terms: analysed.Terms, Punctual: true} // all behind caches
	prepare := &retrieval.Prepare{Next: e.caches.WithCache(pipeline, cache.Selected), Ref: e.catalogue.Ref, HasTerms: analysed.HasTerms, Join: followup.Join, Unready: e.Bases.unready}
	e.Rewriter = &rewrite.Rewriter{Retriever: prepare, Models: &ModelTable{Rows: cfg.ModelTable(), Encodings: reader.encodings}, Calibration: tracker}
	if err := e.openPlanners(o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// openCalibration returns the tracker that learns how upstreams count tokens. With Redis replicas
// share it.
func openCalibration(e *Engine) *model.Tracker {
	tracker := model.NewTracker()
	if store := e.caches.Calibration(); store != nil {
		e.exchange = &Exchange{Tracker: tracker, Store: store, Mismatched: func(why cache.Mismatch) { e.monitor.Mismatched(TierRedis, why) }}
		e.tasks.Start(e.exchange.Run)
	}
	return tracker
}

// openPlanners creates the planners and rerankers of the policies.
func (e *Engine) openPlanners(o Options) error {
	options := PlannerOptions{Cache: e.Config.Cache, Metrics: e.monitor.Metrics, Cached: e.monitor.Cached, Changed: e.monitor.Changed, Watch: e.monitor.WatchBreaker}
	if e.budgets != nil {
		options.Meter = e.budgets.meter
	}
	e.planners = NewPlanners(options)
	made, keep, err := e.planners.Of(e.Config, e.Rewriter.Models)
	if err != nil {
		return err
	}
	keep()
	if e.Planners = made; made != nil {
		counted := made.OnUsage
		made.OnUsage = func(tenant string, kind budget.Kind, tokens int64) {
			counted(tenant, kind, tokens)
			o.Used(Use(kind), tokens)
		}
	}
	return nil
}

// floorWait is how long a search of several bases waits for their minimum score to be measured
// after one of them changed.
const floorWait = 100 * time.Millisecond

// openBases opens the state folder and creates the bases.
func (e *Engine) openBases(ctx context.Context, o Options) error {
	state := &stateFolder{cfg: &e.running, options: o, reader: e.Reader, view: e.view, group: e.catalogue.group, embedding: e.embedding, monitor: e.monitor}
	e.Bases = &Bases{
		cfg: &e.running, keep: o.Keep, catalogue: e.catalogue, changed: make(chan struct{}, 1),
		stores: map[string]remoteBase{}, state: state, reader: e.Reader, view: e.view, monitor: e.monitor,
	}
	if err := state.open(ctx); err != nil {
		return err
	}
	e.catalogue.library = state.library
	e.Bases.open(e.tasks)
	if e.embedding != nil && o.Keep {
		e.monitor.WatchBreaker("embeddings", e.embedding.Client.Skips)
		e.embedding.Learn(ctx, state.library)
		e.tasks.Start(func(ctx context.Context) { e.embedding.Run(ctx, state.library) })
	}
	return nil
}

// Close ends background tasks, and closes the state folder and the caches.
func (e *Engine) Close() error {
	e.tasks.Close()
	e.embedding.Close()
	var errs []error
	if e.Bases != nil { // nil if New failed before
		errs = closeBases(e.Bases)
	}
	if e.planners != nil {
		errs = append(errs, e.planners.Close())
	}
	if e.budgets != nil {
		errs = append(errs, e.budgets.close())
	}
	if e.experiments != nil {
		errs = append(errs, e.experiments.Close())
	}
	return errors.Join(append(errs, e.closeRecords(), e.caches.Close(), e.audit.Close())...)
}

// Panicked is the panics.Handler of background tasks.
func (e *Engine) Panicked(value any, stack []byte) { e.monitor.Panicked(value, stack) }

// DescribeSharing says briefly what replicas share, once Redis has answered.
func (e *Engine) DescribeSharing(ctx context.Context) string { return e.caches.Describe(ctx) }

// DataServer returns the server of the data port. Call it once.
func (e *Engine) DataServer(records report.Recorder, log *slog.Logger) (*proxy.Server, error) {
	cfg, all := e.Config.Proxy(), report.Recorders{e.overview, records}
	if limit := tcp.DescriptorLimit(); cfg.Connections > tcp.SharesOf(limit).Data {
		e.monitor.Log(slog.LevelWarn, fmt.Sprintf("connections: %d are more than the limit of open files, %d, allows; %d are accepted at once", cfg.Connections, limit, tcp.SharesOf(limit).Data))
	}
	if e.Config.PerAddress > 0 {
		e.addresses = &transport.Addresses{MaxConnections: int(e.Config.PerAddress), Trusted: config.Networks(e.Config.Proxies)}
	}
	cfg.Addresses = e.addresses
	cfg.Tenants = e.tenants(e.Config, e.issuers.Load())
	cfg.Switch, cfg.Planners, cfg.Tools, cfg.Outputs, cfg.Chains = e.modes, e.Planners, kitOf(e, cfg.Tenants), outputsOf(e, cfg.Tenants), e.Chains()
	cfg.Given, cfg.Tracing, cfg.Experiments = givenOf(e, cfg.Tenants), e.Tracing, e.experiments
	cfg.Documents = proxy.CitedDocuments{URL: e.catalogue.urlOf, Terms: analysis.Terms}
	if e.budgets != nil {
		cfg.Budgets = e.budgets.meter
	}
	e.issuers.Load().Begin(e.tasks.Start)
	cfg.Recorder = e.records
	if e.explained != nil {
		all = report.Recorders{e.overview, e.explained, records}
		if e.Config.Explain.Bodies != explain.BodiesOff {
			cfg.Bodies = e.explained
		}
	}
	server, err := proxy.New(cfg, e.Rewriter, e.Metrics, log, all...)
	if e.data = server; err == nil {
		e.overview.CacheGuard = server.PromptCaches
	}
	return server, err
}

// tenants returns the callers of cfg. Their key uses are shared by all results.
func (e *Engine) tenants(cfg *config.Config, i *Issuers) tenant.Tenants {
	t := cfg.Proxy().Tenants
	t.Uses = &e.keyUses
	i.Fill(&t)
	return t
}

// TelemetryServer returns the server for scrapers and probes.
func (e *Engine) TelemetryServer(log *slog.Logger) *admin.Server {
	return admin.NewServer(e.telemetry().Handle, log, e.Metrics.Panicked)
}

// AdminServer returns the server for operators. Call it once.
func (e *Engine) AdminServer(log *slog.Logger) *admin.Server {
	e.admin.Store(e.adminHandler(e.Config, e.Rewriter, e.tenants(e.Config, e.issuers.Load()), e.Planners))
	return admin.NewServer(func(ctx *fasthttp.RequestCtx) { e.admin.Load().Handle(ctx) }, log, e.Metrics.Panicked)
}

func (e *Engine) adminHandler(cfg *config.Config, rw *rewrite.Rewriter, tenants tenant.Tenants, plans *proxy.Planners) *admin.Handler {
	directory := tenant.NewDirectory(tenants)
	h := &admin.Handler{
		Telemetry: e.telemetry(), Rewriter: rw, Assembler: rewrite.NewAssembler(rw.Models), Planners: plans, Tenants: directory,
		Explain: e.explained, Overview: e.overview, Modes: e.modes, Audit: e.audit, Lookup: lookupOf(e, cfg, rw, directory, plans), Library: e.view, Manager: e.manager(cfg), Tools: e.Toolbox(),
		Token: cfg.Admin.Token.Value, ReadToken: cfg.Admin.ReadToken.Value, Tokens: cfg.AdminTokens(),
		StateToken: func() (string, error) { return store.AdminToken(e.Config.State.Path) },
	}
	h.Experiments = e.experiments
	if e.budgets != nil {
		h.Usage, h.Months = e.budgets.reporter, e.budgets.bills
	}
	documents, _ := h.Manager.(inspector.Documents) // nil without a state folder
	h.Inspector = inspector.New(inspector.Data{
		Documents: documents, Audit: e.audit,
		Requests: e.explained, Overview: func() *explain.Overview { return e.overview.View(time.Now(), e.explained) }, Tenants: h.Tenants, Policies: Policies{Config: cfg}, Knowledge: h.Lookup, Learnt: rw.Calibration, Modes: e.modes, Usage: h.Usage,
		Experiments: e.experiments, Gaps: &gapReports{engine: e, cfg: cfg},
		DryRun: &explain.DryRunner{Rewriter: rw, Planners: plans, Modes: e.modes},
	}, e.sessions)
	if e.Reloader != nil {
		h.Reload = e.Reloader.Reload
	}
	return h
}

// manager returns the manager of bases, or nil without a state folder.
func (e *Engine) manager(cfg *config.Config) admin.Manager {
	if e.Bases.state.library == nil {
		return nil
	}
	return &manager{
		cfg: cfg, state: e.Bases.state, made: &e.Bases.made, stores: e.Bases.stores, writers: e.Bases.writers, view: e.view, monitor: e.monitor,
		explained: e.explained, records: e.records,
	}
}
