package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/vectorstore"
	"sidenote/rewrite/tags"
)

// A catalog is all bases: those of the configuration, and those that the state folder
// holds beside them, which come and go while the process runs. The latter are in no
// tenant's policy, so only the admin port asks them.
type catalog struct {
	named map[string]retrieval.Base // by id; not changed once requests come
	kept  *knowledge.Library        // nil without a state folder
}

// base returns the base of an id.
func (c *catalog) base(id string) (retrieval.Base, bool) {
	if base, ok := c.named[id]; ok {
		return base, true
	}
	// Asked first whether it exists: the library would remember any id that comes in.
	if c.kept != nil && slices.Contains(c.kept.Bases(), id) {
		return c.kept.Base(id), true
	}
	return nil, false
}

// Ref tells the present state of a base.
func (c *catalog) Ref(id string) (retrieval.Ref, bool) {
	base, ok := c.base(id)
	if !ok {
		return retrieval.Ref{}, false
	}
	return base.Ref(), true
}

// ids lists all bases.
func (c *catalog) ids() []string {
	ids := c.configured()
	if c.kept != nil {
		ids = append(ids, c.kept.Bases()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// configured lists the bases of the configuration.
func (c *catalog) configured() []string { return slices.Sorted(maps.Keys(c.named)) }

// A desk asks bases, each through what stands before it.
type desk struct {
	catalog *catalog
	before  func(retrieval.Base) retrieval.Retriever

	mu    sync.Mutex
	asked map[string]retrieval.Retriever // by id: made once, for flights are shared in it
}

// retriever returns what asks a base; nil where there is none.
func (d *desk) retriever(id string) retrieval.Retriever {
	d.mu.Lock()
	r := d.asked[id]
	d.mu.Unlock()
	if r != nil {
		return r // of a base that is gone it answers like one still to be indexed
	}
	base, ok := d.catalog.base(id)
	if !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked[id] == nil {
		d.asked[id] = d.before(base)
	}
	return d.asked[id]
}

// openBases makes the bases of the configuration. Those in this process are still
// to be indexed; the stores elsewhere are looked after from now on, until close.
func (s *stack) openBases() {
	for name, k := range s.cfg.Knowledge {
		id := string(name)
		if k.Engine == config.EngineVectorStore {
			store := vectorstore.Open(s.storeOptions(name))
			s.remote[id], s.bases.named[id] = store, store
			s.watchBreaker("vector_store/"+id, store.Skips)
			continue
		}
		base := s.embed(id, k.Path)
		s.embedded[id], s.bases.named[id] = base, base
	}
}

func (s *stack) storeOptions(name config.Name) vectorstore.Options {
	o, id := s.cfg.VectorStore(name), string(name)
	o.Version = tags.Version
	o.Neutralise = func(text string) string {
		clean, n := tags.Neutralise(text, false)
		if n > 0 {
			s.metrics.Ingested(id, "indexed", 0, n)
		}
		return clean
	}
	o.Looked = func(files int, bytes int64) {
		s.metrics.Knowledge(id, files, 0, bytes, time.Now())
		s.library.noteStore(id, files, bytes)
	}
	o.Changed = s.changed
	return o
}

// changed warns of what begins to go wrong, and tells when it is over.
func (s *stack) changed(line string, bad bool) {
	if bad {
		s.tell(slog.LevelWarn, line)
		return
	}
	what, _, _ := strings.Cut(line, ";") // what is done meanwhile is over too
	s.tell(slog.LevelInfo, "over: "+what)
}

// partly names those of some bases of whose folders only a part was read.
func (s *stack) partly(ids []string) (lines []string) {
	for _, id := range ids {
		if base := s.embedded[id]; base != nil && base.Content() != nil && base.Content().Part() {
			lines = append(lines, "knowledge "+id+": "+inPart)
		}
	}
	return lines
}

// lookWait is how long start-up waits for a store's first answer.
const lookWait = 2 * time.Second

// lookAtStores waits until the stores elsewhere have told their state, or some
// time has passed, and tells of each what is known then.
func (s *stack) lookAtStores(ctx context.Context, tell func(indexed)) {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	for _, id := range s.bases.configured() {
		store, ok := s.remote[id]
		if !ok {
			continue
		}
		o := s.cfg.VectorStore(config.Name(id))
		line := fmt.Sprintf("%s: vector store %s at %s", id, o.Store, o.BaseURL.Host)
		select {
		case <-store.Asked():
		case <-ctx.Done():
			line += ": no answer yet"
		}
		for _, trouble := range store.Trouble() {
			line = strings.TrimPrefix(trouble, "knowledge ")
		}
		if tell != nil {
			tell(indexed{id: id, store: line})
		}
	}
}
