package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/cache"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/console"
	"sidenote/proxy"
	"sidenote/proxy/admin"
	"sidenote/proxy/panics"
	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/extract/child"
	"sidenote/retrieval/knowledge/store"
	"sidenote/retrieval/vectorstore"
	"sidenote/rewrite"
	"sidenote/rewrite/calibration"
	"sidenote/rewrite/tokens"
)

// A stack is everything between a request and its sources, wired:
//
//	rewrite → prepare → cache(selected) → pipeline → cache(candidates) → knowledge, vectorstore
type stack struct {
	cfg       *config.Config
	bases     *catalog // all of them, of either kind
	embedded  map[string]*knowledge.Base
	home      home
	kept      *knowledge.Library // the bases in the state folder; nil if it is not needed
	amiss     amiss              // what keeps it from being written
	keepers   map[string]*keeper // of the bases that have a folder
	remote    map[string]*vectorstore.Base
	library   *library
	counter   retrieval.Counter // of chunks
	encodings *tokens.Set
	metrics   *proxy.Metrics
	stores    map[cache.Kind]*cache.Memory
	shared    *sharing // nil without Redis
	rewriter  *rewrite.Rewriter
	children  *child.Runner
	stopping  atomic.Bool
	tell      func(slog.Level, string) // of what happens beside requests

	calibration *calibration.Tracker

	mu         sync.Mutex // held to begin something in the background
	life       context.Context
	end        context.CancelFunc
	background sync.WaitGroup
}

// build wires a checked configuration. Nothing listens and nothing is indexed
// yet; close ends it. tell hears of what goes wrong beside requests, and when it
// is over.
func build(ctx context.Context, cfg *config.Config, h home, tell func(level slog.Level, line string)) (*stack, error) {
	encodings := tokens.New()
	counter, err := encodings.Encoding(chunkEncoding)
	if err != nil {
		return nil, err
	}
	stores, err := newStores(int64(cfg.Cache.Memory))
	if err != nil {
		return nil, err
	}
	s := &stack{
		cfg: cfg, counter: counter, encodings: encodings, stores: stores, metrics: newMetrics(cfg), children: children(), tell: tell,
		bases: &catalog{named: map[string]retrieval.Base{}}, embedded: map[string]*knowledge.Base{}, remote: map[string]*vectorstore.Base{},
		home: h, keepers: map[string]*keeper{}, calibration: calibration.New(),
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	if s.shared, err = s.share(); err != nil {
		return nil, err
	}
	if s.shared != nil {
		s.inBackground(s.shareCalibration)
	}
	cached := func(next retrieval.Retriever, kind cache.Kind) retrieval.Retriever {
		near := cache.Tier{Name: tierMemory, Store: stores[kind], TTL: cfg.Cache.TTL, EmptyTTL: cfg.Cache.EmptyTTL}
		tiers := append([]cache.Tier{near}, s.shared.tier(kind)...)
		return &cache.Retriever{Next: next, Tiers: tiers, Kind: kind, Observe: s.observeCache}
	}
	candidates := &desk{catalog: s.bases, asked: map[string]retrieval.Retriever{}, before: func(base retrieval.Base) retrieval.Retriever {
		return cached(s.counted(base), cache.Candidates)
	}}
	terms := new(analysis.Recent).Terms
	s.library = newLibrary(s.bases, candidates.retriever, terms)
	if err := s.openState(ctx, h); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.openBases()
	s.newKeepers()
	pipeline := retrieval.Pipeline{Bases: candidates.retriever, Terms: terms}
	prepare := retrieval.Prepare{Next: cached(pipeline, cache.Selected), Catalog: s.bases, Terms: terms}
	s.rewriter = &rewrite.Rewriter{Retriever: prepare, Models: &models{table: cfg.ModelTable(), encodings: encodings}, Calibration: s.calibration}
	for kind, store := range stores {
		s.metrics.Watch("cache_bytes", "Bytes held by a cache.", map[string]string{"cache": string(kind)}, false,
			func() float64 { return float64(store.Bytes()) })
	}
	return s, nil
}

func (s *stack) close() error {
	s.mu.Lock()
	s.end() // from here on nothing is begun
	s.mu.Unlock()
	s.background.Wait()
	var errs []error
	for _, store := range s.remote {
		errs = append(errs, store.Close())
	}
	if s.kept != nil {
		errs = append(errs, s.kept.Close())
	}
	errs = append(errs, s.shared.close())
	for _, store := range s.stores {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}

// inBackground runs f unless the stack is being closed.
func (s *stack) inBackground(f func(ctx context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() == nil {
		s.background.Add(1)
		panics.Go(s.panicked, func() { f(s.life) }, s.background.Done)
	}
}

// panicked is a panics.Handler of what goes on beside requests.
func (s *stack) panicked(value any, stack []byte) {
	s.metrics.Panicked(value, stack)
	s.tell(slog.LevelError, fmt.Sprintf("BUG: panic: %v\n%s", value, stack))
}

// newStores divides the memory for caches. An entry of candidates is ten times
// as large as one of what was selected of them, and met again far less often: only
// for what came too late, or under another policy.
func newStores(bytes int64) (map[cache.Kind]*cache.Memory, error) {
	stores := map[cache.Kind]*cache.Memory{}
	for kind, share := range map[cache.Kind]int64{cache.Candidates: bytes / 8, cache.Selected: bytes - bytes/8} {
		store, err := cache.NewMemory(share)
		if err != nil {
			return nil, fmt.Errorf("make cache: %w", err)
		}
		stores[kind] = store
	}
	return stores, nil
}

// data is the server of the data port.
func (s *stack) data(records proxy.Recorder, log *slog.Logger) (*proxy.Server, error) {
	return proxy.New(s.cfg.Proxy(), s.rewriter, s.metrics, log, records)
}

// telemetry is the server for scrapers and probes.
func (s *stack) telemetry(log *slog.Logger) *admin.Server {
	return admin.NewServer(s.watched().Handle, log, s.metrics.Panicked)
}

// admin is the server for people who run Sidenote.
func (s *stack) admin(log *slog.Logger) *admin.Server {
	h := &admin.Handler{
		Telemetry: s.watched(), Rewriter: s.rewriter, Tenants: proxy.NewDirectory(s.cfg.Proxy().Tenants),
		Knowledge: s.bases.ids, Library: s.library, Keeper: s.librarian(),
		Token: s.cfg.Admin.Token.Value, ReadToken: s.cfg.Admin.ReadToken.Value,
		StateToken: func() (string, error) { return store.AdminToken(s.cfg.State.Path) },
	}
	return admin.NewServer(h.Handle, log, s.metrics.Panicked)
}

func (s *stack) watched() admin.Telemetry {
	return admin.Telemetry{Metrics: s.metrics.Registry(), Ready: s.unready, Trouble: s.trouble}
}

// unready says why requests should go elsewhere.
func (s *stack) unready() []string {
	if s.stopping.Load() {
		return []string{"shutting down"}
	}
	return nil
}

// chunkEncoding measures chunks; the models that read them may count otherwise.
const chunkEncoding = "o200k_base"

// childCommand is how this program is started to read one file for another one of
// it. It is not for people, and in no help.
const childCommand = "extract-child"

// children is what reads PDF and DOCX: this very program, even if its file has been
// replaced since it was started, and pdftotext where that is found.
func children() *child.Runner {
	self := "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		if self, err = os.Executable(); err != nil {
			return nil
		}
	}
	pdfToText, err := exec.LookPath("pdftotext")
	if err != nil {
		pdfToText = ""
	}
	return child.New([]string{self, childCommand}, pdfToText)
}

func newMetrics(cfg *config.Config) *proxy.Metrics {
	version, commit := buildVersion()
	return proxy.NewMetrics(proxy.Names{
		Tenants: texts(cfg.TenantNames()), Upstreams: texts(cfg.UpstreamNames()), Knowledge: texts(cfg.KnowledgeNames()),
		Version: version, Commit: commit,
	})
}

// counted is a base whose searches are counted.
func (s *stack) counted(base retrieval.Base) retrieval.Retriever {
	return retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		res, err := base.Retrieve(ctx, q)
		s.metrics.Searched(base.Ref().Knowledge, res.Reason)
		return res, err
	})
}

// reachable tells whether an upstream answers at all; any answer will do.
func reachable(ctx context.Context, base string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, base, nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return console.Cause(err)
	}
	return resp.Body.Close()
}
