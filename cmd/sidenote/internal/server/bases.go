package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/panics"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
)

// Bases are the knowledge bases of the configuration, both embedded and in vector stores.
type Bases struct {
	cfg       *atomic.Pointer[config.Config] // the running one
	keep      bool                           // see Options.Keep
	catalogue *catalogue
	made      atomic.Pointer[madeBases]
	changed   chan struct{}         // signals that made was replaced
	stores    map[string]remoteBase // those elsewhere, by id
	closers   []io.Closer           // of stores
	state     *stateFolder
	reader    *Reader
	view      *storeView
	monitor   Monitor
	writers   map[string]*indexer // by id; bases in engines elsewhere that this process writes
	once      sync.Map            // ids for which wasOpen has been true
}

// madeBases are the embedded bases. A value is immutable: a reload replaces it.
type madeBases struct {
	embedded map[string]*knowledge.Base // by id; includes bases of earlier configurations
	indexers map[string]*indexer        // by id; only bases of the running configuration with a folder
}

// A remoteBase is a base in a vector store or an engine elsewhere.
type remoteBase interface {
	retrieval.Base
	FirstRead() <-chan struct{} // closed after the first attempt to read its state
	Trouble() []string          // what does not work at present
	Answered() bool             // whether it has ever answered
}

// closeBases closes the bases elsewhere and the state folder, as far as they are open.
func closeBases(b *Bases) (errs []error) {
	for _, c := range b.closers {
		errs = append(errs, c.Close())
	}
	if b.state.library != nil {
		errs = append(errs, b.state.library.Close())
	}
	indexers := slices.Collect(maps.Values(b.writers))
	if made := b.made.Load(); made != nil {
		indexers = slices.AppendSeq(indexers, maps.Values(made.indexers))
	}
	for _, x := range indexers {
		if x.fetcher != nil {
			errs = append(errs, x.fetcher.remove())
		}
	}
	return errs
}

// open creates the bases. Embedded ones still have to be indexed; vector stores are polled from
// now on.
func (b *Bases) open(tasks *Tasks) {
	made := &madeBases{embedded: map[string]*knowledge.Base{}, indexers: map[string]*indexer{}}
	named := map[string]retrieval.Base{}
	defer func() { b.made.Store(made); b.catalogue.named.Store(&named) }()
	b.writers = map[string]*indexer{}
	engines := b.openEngines(tasks)
	for _, name := range b.cfg.Load().KnowledgeNames() {
		k, id := b.cfg.Load().Knowledge[name], string(name)
		if k.Engine == config.EngineVectorStore {
			named[id] = b.openStore(name)
			continue
		}
		if base := engines[id]; base != nil {
			named[id] = base
			continue
		}
		base := b.state.base(id, k.Path)
		made.embedded[id], named[id] = base, base
		if x := indexerOf(b, b.cfg.Load(), name, tasks); x != nil {
			made.indexers[id] = x
		}
	}
}

// indexerOf returns the indexer of a base, or nil if this process does not read its folder.
func indexerOf(b *Bases, cfg *config.Config, name config.Name, tasks *Tasks) *indexer {
	if cfg.Knowledge[name].Path == "" || !b.keep || cfg.State.Follow {
		return nil
	}
	return &indexer{folder: cfg.Folder(name), fetcher: NewFetcher(cfg, name, b.monitor), library: b.state.library, tasks: tasks, monitor: b.monitor}
}

// An Indexed is the result of reading one base.
type Indexed struct {
	ID     string
	Report folder.Report
	Took   time.Duration
	Model  string // embedding model, used in the background; "" for none
	Line   string // the whole message, for a base that was not read; else ""
}

// ReadAtOnce limits the bases that are read concurrently. One that takes long, as with large PDFs,
// does not hold up the others.
const ReadAtOnce = 2

// Index reads all embedded bases. Until a base is complete, it answers from what the state folder
// holds of it. tell, which may be nil, gets each result in the order of base names, never two at a
// time. A serving process does not fail if a folder cannot be read, because its indexer retries.
func (b *Bases) Index(ctx context.Context, tell func(Indexed)) error {
	if b.state.library != nil {
		if err := b.state.load(ctx); err != nil {
			return err
		}
	}
	names := slices.DeleteFunc(b.cfg.Load().KnowledgeNames(), func(name config.Name) bool { return b.made.Load().embedded[string(name)] == nil })
	var mu sync.Mutex
	ended, told := make([]*Indexed, len(names)), 0
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(ReadAtOnce)
	for i, name := range names {
		work.Go(func() error {
			done, err := b.indexOne(ctx, name)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			ended[i] = &done
			for ; told < len(ended) && ended[told] != nil; told++ {
				if tell != nil {
					tell(*ended[told])
				}
			}
			return nil
		})
	}
	return work.Wait()
}

// indexOne reads a base, unless it has no folder.
func (b *Bases) indexOne(ctx context.Context, name config.Name) (Indexed, error) {
	id := string(name)
	if x := b.made.Load().indexers[id]; x != nil && b.state.library.Standing() == library.Writing {
		if x.waitsForFetch() {
			return Indexed{ID: id, Line: id + ": will be read when it is fetched from " + x.folder.Remote}, nil
		}
		done := x.read(ctx, x.library.Sync)
		if done.err != nil && ctx.Err() == nil {
			b.monitor.Log(slog.LevelWarn, done.problem())
			return Indexed{ID: id, Line: b.storedLine(id)}, nil
		}
		space, _ := b.state.embedding.Space(id)
		return Indexed{ID: id, Report: done.report, Took: done.took, Model: space.String()}, done.err
	}
	if b.cfg.Load().Knowledge[name].Path == "" || b.keep {
		return Indexed{ID: id, Line: b.storedLine(id)}, nil
	}
	start := time.Now()
	content, report, err := knowledge.Load(ctx, b.cfg.Load().Folder(name), b.reader.Deps())
	if err == nil && b.state.library != nil {
		content, err = b.state.library.WithVectors(ctx, id, content)
	}
	if err != nil {
		return Indexed{}, err
	}
	b.Swap(id, content, report)
	return Indexed{ID: id, Report: report, Took: time.Since(start)}, nil
}

// storedLine describes what the state folder holds of a base.
func (b *Bases) storedLine(id string) string {
	c := b.state.library.Base(id).Content()
	if c == nil && b.keep {
		return id + ": " + b.waitsFor(id)
	}
	if c == nil {
		return id + ": nothing yet, in " + b.cfg.Load().State.Path
	}
	line := fmt.Sprintf("%s: %s, %s, in %s", id, terminal.Plural(c.Documents(), "document"), terminal.Plural(c.Chunks(), "chunk"), b.cfg.Load().State.Path)
	if c.Partial() {
		line += "; " + inPart
	}
	return line
}

// Swap replaces the content of a base that is not in the state folder.
func (b *Bases) Swap(id string, content *knowledge.Content, report folder.Report) {
	b.made.Load().embedded[id].Swap(content)
	b.view.noteChange(id)
	b.catalogue.group.Changed(id)
	b.monitor.Metrics.Knowledge(id, content.Documents(), content.Chunks(), content.Bytes(), time.Now())
	b.monitor.Indexed(id, report, true)
}

// CheckStart returns an error for what is most likely a mistake in the command line or
// configuration.
func (b *Bases) CheckStart(ctx context.Context) error { return b.state.checkStart(ctx) }

// Serve loads the bases and keeps them in sync with their folders until ctx ends. Problems with
// the state folder or a base are logged and retried, and no request waits for them. indexed gets
// each base that was read; ready is called once, when all were read or tried.
func (b *Bases) Serve(ctx context.Context, indexed func(Indexed), ready func()) {
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() { b.writeEngines(ctx) })
	for first := true; ctx.Err() == nil; first = false {
		b.state.tellAccess(first)
		if err := b.Index(ctx, indexed); err != nil && ctx.Err() == nil {
			b.monitor.Log(slog.LevelWarn, err.Error())
		}
		if first && ctx.Err() == nil {
			b.expect()
			b.AwaitStores(ctx, indexed)
			for _, line := range b.UnknownAttributes() {
				b.monitor.Log(slog.LevelWarn, line)
			}
			ready()
		}
		phase, end := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { b.watch(phase, indexed) })
		b.state.awaitChange(ctx)
		end()
		watching.Wait()
		if b.state.repaired(ctx) {
			b.state.leave(ctx)
			b.state.improve(ctx)
		}
	}
}

// AwaitFloor waits until the minimum score of bases that are searched together is known. It is for
// commands that ask one question, which would otherwise lack an estimate or spend the search's
// time on it.
func (b *Bases) AwaitFloor(ctx context.Context, ids []string) {
	select {
	case <-b.catalogue.group.Prepare(ids...):
	case <-ctx.Done():
	}
}

// expect prepares the groups of bases that the policies search together.
func (b *Bases) expect() {
	for _, name := range b.cfg.Load().TenantNames() {
		tenant, _ := b.cfg.Load().Tenant(name)
		ids := slices.DeleteFunc(slices.Clone(tenant.Rewrite.Knowledge), func(id string) bool { return b.made.Load().embedded[id] == nil })
		b.catalogue.group.Prepare(ids...)
	}
}

// watch keeps all bases in sync until ctx ends: with their folders if this process writes the
// state folder, else with the process that does. indexed gets the bases that a reload added.
func (b *Bases) watch(ctx context.Context, indexed func(Indexed)) {
	var all sync.WaitGroup
	defer all.Wait()
	watched := func(ctx context.Context, watch func(context.Context) error) {
		all.Go(func() {
			defer panics.Recover(b.monitor.Panicked, nil) // after a panic the base stays as it is
			if err := watch(ctx); err != nil && ctx.Err() == nil {
				b.monitor.Log(slog.LevelWarn, err.Error())
			}
		})
	}
	switch b.state.library.Standing() {
	case library.Following:
		watched(ctx, b.state.library.Follow)
	case library.Writing:
		watched(ctx, b.state.loadOthers)
		w := watches{start: watched, first: func(ctx context.Context, x *indexer) error { return indexNew(ctx, b, x, indexed) }}
		for w.keep(ctx, b.made.Load().indexers); w.next(ctx, b.changed); {
			w.keep(ctx, b.made.Load().indexers)
		}
	}
}
