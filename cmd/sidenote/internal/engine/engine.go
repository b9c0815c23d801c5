// Package engine wires what stands between a request and its sources, and keeps it
// running: bases, the state folder they are in, caches, and the servers in front of them.
//
//	rewrite → prepare → cache(selected) → pipeline → cache(candidates) → knowledge together, each vectorstore
package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"sidenote/cache"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/proxy/killswitch"
	"sidenote/proxy/metrics"
	"sidenote/proxy/report"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/followup"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/store"
	"sidenote/retrieval/vectorstore"
	"sidenote/rewrite"
	"sidenote/rewrite/calibration"
)

// Options say what a process does with an engine. The zero Options read folders into
// memory, and other bases from the state folder as it is: that is for commands that look
// at knowledge and change nothing.
type Options struct {
	Keep    bool   // bases are written to the state folder, or followed there
	Address string // of the admin port, for others that want to write the state folder

	// Tell hears of what goes wrong beside requests, and when it is over; it may be nil.
	Tell func(level slog.Level, line string)
}

// An Engine is everything between a request and its sources, wired.
type Engine struct {
	Config   *config.Config
	Metrics  *metrics.Metrics
	Rewriter *rewrite.Rewriter
	Reader   *Reader
	Bases    *Bases

	catalogue *catalogue
	view      *storeView
	caches    *caches
	exchange  *calibrationExchange // nil without Redis
	explained *explain.Ring        // nil if no requests are kept
	keyUses   proxy.KeyUses
	modes     *killswitch.Switch // nil in a command
	issuers   *issuers
	monitor   monitor
	tasks     *tasks
	stopping  atomic.Bool
}

// New wires a checked configuration. Nothing listens and nothing is indexed yet.
func New(ctx context.Context, cfg *config.Config, o Options) (*Engine, error) {
	reader, err := NewReader(cfg.State.Path)
	if err != nil {
		return nil, err
	}
	if o.Tell == nil {
		o.Tell = func(slog.Level, string) {}
	}
	version, commit := Version()
	m := monitor{tell: o.Tell, metrics: metrics.New(metrics.Names{
		Tenants: config.Texts(cfg.TenantNames()), Upstreams: config.Texts(cfg.UpstreamNames()), Knowledge: config.Texts(cfg.KnowledgeNames()),
		Version: version, Commit: commit,
	})}
	reader.neutralised = m.neutralised
	e := &Engine{
		Config: cfg, Metrics: m.metrics, Reader: reader, monitor: m, issuers: newIssuers(cfg, m),
		catalogue: &catalogue{named: map[string]retrieval.Base{}, made: map[string]retrieval.Retriever{}},
	}
	if n := int(cfg.Explain.Keep); n > 0 {
		e.explained = explain.New(n, cfg.Explain.Bodies)
	}
	if e.caches, err = newCaches(cfg, m); err != nil {
		return nil, err
	}
	e.tasks = newTasks(ctx, m.panicked)
	if o.Keep {
		e.openModes()
	}
	tracker := calibration.New()
	if store := e.caches.codecs[cache.Calibration]; store != nil {
		e.exchange = &calibrationExchange{tracker: tracker, store: store, monitor: m}
		e.tasks.start(e.exchange.run)
	}
	e.catalogue.group = &knowledge.Group{Base: e.catalogue.embedded, Searched: m.metrics.Searched, Start: e.tasks.start, Wait: floorWait}
	e.catalogue.together = e.caches.before(e.catalogue.group, cache.Candidates)
	e.catalogue.cached = func(base retrieval.Base) retrieval.Retriever {
		return e.caches.before(m.searched(base), cache.Candidates)
	}
	terms := new(analysis.Recent).Terms
	e.view = newStoreView(e.catalogue, terms)
	if err := e.openBases(ctx, o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	pipeline := retrieval.Pipeline{Bases: e.catalogue.retriever, Joint: e.catalogue.joint, Terms: terms}
	prepare := retrieval.Prepare{Next: e.caches.before(pipeline, cache.Selected), Ref: e.catalogue.Ref, Terms: terms, Join: followup.Join}
	e.Rewriter = &rewrite.Rewriter{Retriever: prepare, Models: &modelTable{rows: cfg.ModelTable(), encodings: reader.encodings}, Calibration: tracker}
	return e, nil
}

// floorWait is how long a search of several bases waits for their least score to be measured
// after one of them has changed.
const floorWait = 100 * time.Millisecond

// openBases opens the state folder and makes the bases.
func (e *Engine) openBases(ctx context.Context, o Options) error {
	state := &stateFolder{cfg: e.Config, options: o, reader: e.Reader, view: e.view, group: e.catalogue.group, monitor: e.monitor}
	e.Bases = &Bases{
		cfg: e.Config, keep: o.Keep, catalogue: e.catalogue, embedded: map[string]*knowledge.Base{}, indexers: map[string]*indexer{},
		stores: map[string]*vectorstore.Base{}, state: state, reader: e.Reader, view: e.view, monitor: e.monitor,
	}
	if err := state.open(ctx); err != nil {
		return err
	}
	e.catalogue.library = state.library
	e.Bases.open(e.tasks)
	return nil
}

// Close ends what runs in the background, and closes the state folder and the caches.
func (e *Engine) Close() error {
	e.tasks.close()
	var errs []error
	for _, store := range e.Bases.stores {
		errs = append(errs, store.Close())
	}
	if e.Bases.state.library != nil {
		errs = append(errs, e.Bases.state.library.Close())
	}
	return errors.Join(append(errs, e.caches.close())...)
}

// Panicked is a panics.Handler of what runs beside requests.
func (e *Engine) Panicked(value any, stack []byte) { e.monitor.panicked(value, stack) }

// Shared says in a few words what replicas share, once that is known.
func (e *Engine) Shared(ctx context.Context) string { return e.caches.describe(ctx) }

// DataServer is the server of the data port.
func (e *Engine) DataServer(records report.Recorder, log *slog.Logger) (*proxy.Server, error) {
	cfg := e.Config.Proxy()
	cfg.Tenants = e.tenants()
	cfg.Switch = e.modes
	e.issuers.start(e.tasks)
	if e.explained == nil {
		return proxy.New(cfg, e.Rewriter, e.Metrics, log, records)
	}
	if e.Config.Explain.Bodies != explain.BodiesOff {
		cfg.Bodies = e.explained
	}
	return proxy.New(cfg, e.Rewriter, e.Metrics, log, e.explained, records)
}

// tenants says who may call. What is known of callers while the process runs is shared by
// all that ask for it.
func (e *Engine) tenants() proxy.Tenants {
	t := e.Config.Proxy().Tenants
	t.Uses = &e.keyUses
	e.issuers.fill(&t)
	return t
}

// TelemetryServer is the server for scrapers and probes.
func (e *Engine) TelemetryServer(log *slog.Logger) *admin.Server {
	return admin.NewServer(e.telemetry().Handle, log, e.Metrics.Panicked)
}

// AdminServer is the server for people who run Sidenote.
func (e *Engine) AdminServer(log *slog.Logger) *admin.Server {
	h := &admin.Handler{
		Telemetry: e.telemetry(), Rewriter: e.Rewriter, Tenants: proxy.NewDirectory(e.tenants()),
		Explain: e.explained, Modes: e.modes, Knowledge: e.catalogue.ids, Thresholds: config.Thresholds(e.Config.Knowledge, e.Config.KnowledgeNames()), Library: e.view, Manager: e.manager(),
		Token: e.Config.Admin.Token.Value, ReadToken: e.Config.Admin.ReadToken.Value,
		StateToken: func() (string, error) { return store.AdminToken(e.Config.State.Path) },
	}
	return admin.NewServer(h.Handle, log, e.Metrics.Panicked)
}

// manager is nil without a state folder.
func (e *Engine) manager() admin.Manager {
	if e.Bases.state.library == nil {
		return nil
	}
	return &manager{cfg: e.Config, state: e.Bases.state, indexers: e.Bases.indexers, stores: e.Bases.stores, view: e.view, monitor: e.monitor}
}
