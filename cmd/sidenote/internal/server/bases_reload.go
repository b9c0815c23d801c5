package server

import (
	"context"
	"fmt"
	"maps"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/knowledge/library"
)

// addBases creates the embedded bases that are new in cfg. They answer from the state folder if
// that was read as cfg says, else they still have to be indexed. Existing bases are kept. It
// returns a function that undoes this.
//
// Bases that cfg lacks can still be searched by requests that began before; settleBases stops
// reading their folders.
func addBases(ctx context.Context, b *Bases, cfg *config.Config) (takeBack func(), err error) {
	before, old, named := b.made.Load(), b.cfg.Load(), *b.catalogue.named.Load()
	made, all := &madeBases{embedded: maps.Clone(before.embedded), indexers: before.indexers}, maps.Clone(named)
	var added []string
	for name, k := range cfg.Knowledge {
		id := string(name)
		if _, there := old.Knowledge[name]; there || k.Engine != config.EngineEmbedded {
			continue
		}
		base := b.state.base(id, k.Path)
		made.embedded[id], all[id], added = base, base, append(added, id)
	}
	b.made.Store(made)
	b.catalogue.named.Store(&all)
	b.cfg.Store(cfg) // asConfigured reads it
	takeBack = func() {
		b.cfg.Store(old)
		b.catalogue.named.Store(&named)
		b.made.Store(before)
	}
	for _, id := range added {
		if b.state.library.Standing() == library.NotOpen {
			break // nothing is loaded
		}
		err := b.state.library.Reload(ctx, id)
		if err == nil && cfg.Knowledge[config.Name(id)].Path == "" {
			err = b.state.loadFolderless(ctx, id)
		}
		if err != nil {
			takeBack()
			return nil, fmt.Errorf("knowledge %s: %w", id, err)
		}
	}
	return takeBack, nil
}

// settleBases has exactly the folders of cfg read and watched.
func settleBases(b *Bases, cfg *config.Config, tasks *Tasks) {
	before := b.made.Load()
	made := &madeBases{embedded: before.embedded, indexers: map[string]*indexer{}}
	for name := range cfg.Knowledge {
		id := string(name)
		x := before.indexers[id]
		if x == nil && before.embedded[id] != nil {
			x = indexerOf(b, cfg, name, tasks)
		}
		if x != nil {
			made.indexers[id] = x
		}
	}
	b.made.Store(made)
	b.expect()
	select {
	case b.changed <- struct{}{}:
	default: // a signal is already pending
	}
}

// indexNew reads a base for the first time.
func indexNew(ctx context.Context, b *Bases, x *indexer, indexed func(Indexed)) error {
	done, err := b.indexOne(ctx, config.Name(x.folder.ID))
	if err == nil {
		b.expect()
		indexed(done)
	}
	return err
}

// watches are the indexers that are watching their folders.
type watches struct {
	start func(ctx context.Context, watch func(context.Context) error)
	first func(ctx context.Context, x *indexer) error // reads a folder for the first time
	ends  map[*indexer]context.CancelFunc
}

// keep starts watching for new indexers and ends it for those that are not in indexers.
func (w *watches) keep(ctx context.Context, indexers map[string]*indexer) {
	before := w.ends
	w.ends = map[*indexer]context.CancelFunc{}
	for _, x := range indexers {
		if end := before[x]; end != nil {
			w.ends[x] = end
			delete(before, x)
			continue
		}
		one, end := context.WithCancel(ctx)
		w.ends[x] = end
		w.start(one, func(ctx context.Context) error {
			defer x.endRequests(ctx)()
			if x.status().runs == 0 && !x.waitsForFetch() {
				if err := w.first(ctx, x); err != nil {
					return err
				}
			}
			return x.watch(ctx)
		})
	}
	for _, end := range before {
		end()
	}
}

// next waits until the indexers have changed; it returns false when ctx has ended.
func (w *watches) next(ctx context.Context, changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		for _, end := range w.ends {
			end()
		}
		return false
	}
}
