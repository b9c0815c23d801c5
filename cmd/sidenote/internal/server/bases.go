package server

import (
	"context"
	"fmt"
	"log/slog"
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
	"sidenote/retrieval/vectorstore"
)

// Bases are the knowledge bases of the configuration: the embedded ones, and those in
// vector stores.
type Bases struct {
	cfg       *atomic.Pointer[config.Config] // that is in force
	keep      bool                           // see Options.Keep
	catalogue *catalogue
	made      atomic.Pointer[madeBases]
	changed   chan struct{}                // has an element after made was replaced
	stores    map[string]*vectorstore.Base // by id: those that other services keep
	state     *stateFolder
	reader    *Reader
	view      *storeView
	monitor   Monitor
	once      sync.Map // the ids for which wasOpen was true
}

// madeBases are the embedded bases that were made. They are never changed: a reload puts
// others in their place.
type madeBases struct {
	embedded map[string]*knowledge.Base // by id: those of the configuration, and that were in it before
	indexers map[string]*indexer        // of those of the configuration that have a folder
}

// closeBases closes vector stores and the state folder, as far as they are open.
func closeBases(b *Bases) (errs []error) {
	for _, store := range b.stores {
		errs = append(errs, store.Close())
	}
	if b.state.library != nil {
		errs = append(errs, b.state.library.Close())
	}
	return errs
}

// open makes the bases. The embedded ones are still to be indexed; vector stores are asked
// from now on.
func (b *Bases) open(tasks *Tasks) {
	made := &madeBases{embedded: map[string]*knowledge.Base{}, indexers: map[string]*indexer{}}
	named := map[string]retrieval.Base{}
	defer func() { b.made.Store(made); b.catalogue.named.Store(&named) }()
	for _, name := range b.cfg.Load().KnowledgeNames() {
		k, id := b.cfg.Load().Knowledge[name], string(name)
		if k.Engine == config.EngineVectorStore {
			named[id] = b.openStore(name)
			continue
		}
		base := b.state.base(id, k.Path)
		made.embedded[id], named[id] = base, base
		if x := indexerOf(b, b.cfg.Load(), name, tasks); x != nil {
			made.indexers[id] = x
		}
	}
}

// indexerOf returns what reads the folder of a base; nil where this process reads none.
func indexerOf(b *Bases, cfg *config.Config, name config.Name, tasks *Tasks) *indexer {
	if cfg.Knowledge[name].Path == "" || !b.keep || cfg.State.Follow {
		return nil
	}
	return &indexer{folder: cfg.Folder(name), library: b.state.library, tasks: tasks, monitor: b.monitor}
}

// An Indexed is what became of reading one base.
type Indexed struct {
	ID     string
	Report folder.Report
	Took   time.Duration
	Model  string // by which it is embedded beside the requests; "" for none
	Line   string // of a base that was not read: all that there is to say; else ""
}

// ReadAtOnce is how many bases are read side by side: one that takes long, as for large PDFs,
// holds up no other.
const ReadAtOnce = 2

// Index reads all embedded bases; each answers from when it is whole, and until then from
// what the state folder holds of it. tell hears of each, in the order of their names and
// never twice at a time; it may be nil. A process that serves goes on where a folder cannot
// be read, because its indexer tries again.
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
		done := x.read(ctx, x.library.Sync)
		if done.err != nil && ctx.Err() == nil {
			b.monitor.Tell(slog.LevelWarn, done.problem())
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

// storedLine says what the state folder holds of a base.
func (b *Bases) storedLine(id string) string {
	c := b.state.library.Base(id).Content()
	if c == nil && b.keep {
		return id + ": " + b.waitsFor(id)
	}
	if c == nil {
		return id + ": nothing yet, in " + b.cfg.Load().State.Path
	}
	line := fmt.Sprintf("%s: %s, %s, in %s", id, terminal.Plural(c.Documents(), "document"), terminal.Plural(c.Chunks(), "chunk"), b.cfg.Load().State.Path)
	if c.Part() {
		line += "; " + inPart
	}
	return line
}

// Swap puts content that is not in the state folder into a base.
func (b *Bases) Swap(id string, content *knowledge.Content, report folder.Report) {
	b.made.Load().embedded[id].Swap(content)
	b.view.noteChange(id)
	b.catalogue.group.Changed(id)
	b.monitor.Metrics.Knowledge(id, content.Documents(), content.Chunks(), content.Bytes(), time.Now())
	b.monitor.Indexed(id, report, true)
}

// CheckStart refuses what is most likely a mistake in the command line or configuration.
func (b *Bases) CheckStart(ctx context.Context) error { return b.state.checkStart(ctx) }

// Serve makes the bases answer, and keeps them as their folders are, until ctx ends. What
// is wrong with the state folder, or with a base, is told and tried again, and no request
// waits for it. indexed hears of each base that is read; ready is called when all were
// read or tried for the first time.
func (b *Bases) Serve(ctx context.Context, indexed func(Indexed), ready func()) {
	for first := true; ctx.Err() == nil; first = false {
		b.state.tellAccess(first)
		if err := b.Index(ctx, indexed); err != nil && ctx.Err() == nil {
			b.monitor.Tell(slog.LevelWarn, err.Error())
		}
		if first && ctx.Err() == nil {
			b.expect()
			b.AwaitStores(ctx, indexed)
			for _, line := range b.UnknownAttributes() {
				b.monitor.Tell(slog.LevelWarn, line)
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

// AwaitFloor waits until bases that are searched together have a least score, for a command
// that asks one question: none would have an estimate, or lose the time of its search to it.
func (b *Bases) AwaitFloor(ctx context.Context, ids []string) {
	select {
	case <-b.catalogue.group.Expect(ids...):
	case <-ctx.Done():
	}
}

// expect gets ready for what the policies search together.
func (b *Bases) expect() {
	for _, name := range b.cfg.Load().TenantNames() {
		tenant, _ := b.cfg.Load().Tenant(name)
		ids := slices.DeleteFunc(slices.Clone(tenant.Rewrite.Knowledge), func(id string) bool { return b.made.Load().embedded[id] == nil })
		b.catalogue.group.Expect(ids...)
	}
}

// watch keeps all bases as their folders are, or as the process has them that writes the
// state folder, until ctx ends. indexed hears of bases that a reload brought.
func (b *Bases) watch(ctx context.Context, indexed func(Indexed)) {
	var all sync.WaitGroup
	defer all.Wait()
	watched := func(ctx context.Context, watch func(context.Context) error) {
		all.Go(func() {
			defer panics.Recover(b.monitor.Panicked, nil) // the base stays as it is
			if err := watch(ctx); err != nil && ctx.Err() == nil {
				b.monitor.Tell(slog.LevelWarn, err.Error())
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
