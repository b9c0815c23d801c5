package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/panics"
	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/opensearch"
	"sidenote/retrieval/postgres"
	"sidenote/retrieval/services"
)

// An engineOpener opens an engine with the mappings of its bases, by their ids. It does not
// connect.
type engineOpener func(engine.Connection, map[string]engine.Mapping) (engine.Server, error)

// engineOpeners returns the engines that are part of the program, by their names in a
// configuration.
func engineOpeners() map[string]engineOpener {
	return map[string]engineOpener{
		config.EnginePostgres: func(c engine.Connection, mappings map[string]engine.Mapping) (engine.Server, error) {
			s, err := postgres.Open(postgres.Options{Connection: c, Mappings: mappings})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		config.EngineOpenSearch: func(c engine.Connection, mappings map[string]engine.Mapping) (engine.Server, error) {
			s, err := opensearch.Open(opensearch.Options{Connection: c, Mappings: mappings})
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	}
}

// OpenEngine opens the engine of a base, for all bases that share it. It does not connect.
func OpenEngine(cfg *config.Config, name config.Name) (engine.Server, error) {
	kind := cfg.Knowledge[name].Engine
	open, ok := engineOpeners()[kind]
	if !ok {
		return nil, fmt.Errorf("knowledge %s: engine %q is not part of this program", name, kind)
	}
	mappings := map[string]engine.Mapping{}
	for _, base := range cfg.Engines(name) {
		if m, ok := cfg.EngineMapping(base); ok {
			mappings[string(base)] = m
		}
	}
	server, err := open(cfg.EngineConnection(name), mappings)
	if err != nil {
		return nil, fmt.Errorf("knowledge %s: %w", name, err)
	}
	return server, nil
}

// EngineTrouble returns what an engine that was asked lacks, such as an extension, for people.
func EngineTrouble(at engine.Server) []string {
	if t, ok := at.(interface{ Trouble() []string }); ok {
		return t.Trouble()
	}
	return nil
}

// openEngines opens the engines of all bases that are in one, and returns these bases by id. Those with
// a folder are written by this process, if it serves.
func (b *Bases) openEngines(tasks *Tasks) map[string]*engine.Base {
	cfg, bases, used := b.cfg.Load(), map[string]*engine.Base{}, map[string]bool{}
	for _, name := range cfg.KnowledgeNames() {
		if !cfg.Knowledge[name].Remote() || bases[string(name)] != nil {
			continue
		}
		at, err := OpenEngine(cfg, name)
		if err != nil { // the configuration was checked
			b.monitor.Log(slog.LevelError, err.Error())
			continue
		}
		o := b.engineOptions(cfg, name, at)
		if used[o.Name] { // reached in another way, as by another user
			o.Name += " for " + string(name)
		}
		used[o.Name] = true
		e := engine.Open(o)
		b.closers = append(b.closers, e)
		b.monitor.WatchBreaker(cfg.Knowledge[name].Engine+"/"+string(name), e.Skips)
		for _, other := range cfg.Engines(name) {
			id := string(other)
			bases[id] = e.Base(id)
			b.stores[id] = bases[id]
			if x := b.writerOf(cfg, other, at, tasks); x != nil {
				b.writers[id] = x
			}
		}
	}
	return bases
}

func (b *Bases) engineOptions(cfg *config.Config, name config.Name, at engine.Server) engine.Options {
	connection := cfg.EngineConnection(name)
	o := engine.Options{
		Server: at, Name: cfg.EnginePlace(name), Version: b.reader.Deps().Version, Calls: connection.Most, Timeout: connection.Timeout,
		Neutralise: b.reader.neutralise, Analysed: b.catalogue.group.Analysed, Questions: b.catalogue.group.Questions,
		Looked: func(s engine.State) {
			b.monitor.Metrics.Knowledge(s.Base, s.Documents, s.Chunks, s.Bytes, time.Now())
			b.view.noteEngine(s)
		},
		Searched: b.monitor.Metrics.Searched, Changed: b.monitor.Changed,
	}
	embedded := map[string]bool{}
	for _, other := range config.QuestionsEmbedded(cfg) {
		embedded[string(other)] = true
	}
	if client := b.state.embedding; client != nil {
		o.Space = func(base string) (retrieval.Space, bool) { return client.Client.Space(), embedded[base] }
	}
	for _, other := range cfg.Engines(name) {
		o.Bases = append(o.Bases, string(other))
		if _, mapped := cfg.EngineMapping(other); mapped {
			o.Mapped = append(o.Mapped, string(other))
		}
	}
	return o
}

// writerOf returns what keeps a base in an engine the same as its folder; nil if this process does not.
func (b *Bases) writerOf(cfg *config.Config, name config.Name, at engine.Server, tasks *Tasks) *indexer {
	if cfg.Knowledge[name].Path == "" || !b.keep || cfg.State.Follow {
		return nil
	}
	o, err := WriterOptions(name, at, b.reader)
	if err != nil {
		b.monitor.Log(slog.LevelError, err.Error())
		return nil
	}
	if client := b.state.embedding; client != nil && cfg.Knowledge[name].Embed {
		o.Passages = client.Client
		o.Spend = spendPerDay(int(cfg.Embeddings.TokensPerDay), time.Now)
	}
	return &indexer{folder: cfg.Folder(name), fetcher: NewFetcher(cfg, name, b.monitor), library: engine.NewWriter(o), tasks: tasks, monitor: b.monitor}
}

// WriterOptions returns the options of a writer of a base in an engine, without vectors.
func WriterOptions(name config.Name, at engine.Server, reader *Reader) (engine.WriterOptions, error) {
	host, _ := os.Hostname()
	deps, err := reader.stateDeps(true)
	return engine.WriterOptions{Server: at, Base: string(name), Owner: fmt.Sprintf("process %d on %s", os.Getpid(), host), Deps: deps}, err
}

// NewPassages returns what embeds the chunks of a base, and what limits its tokens; nil without
// embeddings.
func NewPassages(cfg *config.Config, name config.Name, client *services.Embedder) (engine.Passages, func(context.Context, int) error) {
	if client == nil || !cfg.Knowledge[name].Embed {
		return nil, nil
	}
	return client, spendPerDay(int(cfg.Embeddings.TokensPerDay), time.Now)
}

// spendPerDay returns a function that counts tokens, and fails when more than perDay would be sent in a
// day (UTC) by this process; 0 is no limit.
func spendPerDay(perDay int, now func() time.Time) func(context.Context, int) error {
	var mu sync.Mutex
	day, spent := time.Time{}, 0
	return func(_ context.Context, tokens int) error {
		mu.Lock()
		defer mu.Unlock()
		if today := now().UTC().Truncate(24 * time.Hour); !today.Equal(day) {
			day, spent = today, 0
		}
		if perDay > 0 && spent+tokens > perDay {
			return &LimitError{PerDay: perDay, Until: day.Add(24 * time.Hour)}
		}
		spent += tokens
		return nil
	}
}

// writeEngines keeps the bases in engines the same as their folders until ctx ends, then gives their
// leases back.
func (b *Bases) writeEngines(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for id, x := range b.writers {
		all.Go(func() {
			defer panics.Recover(b.monitor.Panicked, nil) // after a panic the base stays as it is
			defer x.giveBack(ctx)
			defer x.endRequests(ctx)()
			if !x.waitsForFetch() {
				if done := x.read(ctx, x.library.Sync); ctx.Err() == nil {
					x.tell(done, false)
				}
			}
			if err := x.watch(ctx); err != nil && ctx.Err() == nil {
				b.monitor.Log(slog.LevelWarn, fmt.Sprintf("knowledge %s: %v", id, err))
			}
		})
	}
}

// giveBackTime limits how long a process that ends waits for an engine.
const giveBackTime = 2 * time.Second

// giveBack ends the lease of a base in an engine.
func (x *indexer) giveBack(ctx context.Context) {
	w, ok := x.library.(*engine.Writer)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	x.reading.Lock()
	defer x.reading.Unlock()
	if err := w.Close(ctx); err != nil && !errors.Is(err, engine.ErrLeaseLost) {
		x.monitor.Log(slog.LevelWarn, fmt.Sprintf("knowledge %s: the lease ends by itself: %v", x.folder.ID, err))
	}
}

// noteVectors keeps which vectors the last run made in an engine, and logs why some are missing, once.
// mu is held.
func (x *indexer) noteVectors() {
	w, ok := x.library.(*engine.Writer)
	if !ok {
		return
	}
	before, now := x.vectors.Err, w.Embedding.Err
	x.vectors = w.Embedding
	switch {
	case now != nil && (before == nil || before.Error() != now.Error()):
		x.monitor.Log(slog.LevelWarn, x.unembedded(x.folder.ID))
	case now == nil && before != nil:
		x.monitor.Log(slog.LevelInfo, fmt.Sprintf("knowledge %s: all chunks are embedded now", x.folder.ID))
	}
}

// unembedded says how many chunks of a base in an engine are embedded and why not more.
func (i *indexing) unembedded(id string) string {
	v := &i.vectors
	return problem(id, EmbeddingReport{Chunks: v.Chunks, AlreadyEmbedded: v.Had, NewVectors: v.Made}, v.Err)
}

// late returns why vectors are missing that may be made later; nil if the others were refused.
func (i *indexing) late() error {
	if v := &i.vectors; v.Chunks-v.Had-v.Made > v.Refused {
		return v.Err
	}
	return nil
}

// retryIn returns when another run is due though nothing changed; 0 if none is. last is what it returned
// before.
func (i *indexing) retryIn(last time.Duration) time.Duration {
	late, limit := i.late(), (*LimitError)(nil)
	switch {
	case i.err != nil:
		return retryEvery
	case late == nil:
		return 0
	case errors.As(late, &limit):
		return max(retryEvery, time.Until(limit.Until))
	}
	return min(max(2*last, retryEvery), maxRetry)
}
