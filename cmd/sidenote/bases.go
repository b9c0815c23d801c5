package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
	"sidenote/retrieval/vectorstore"
	"sidenote/rewrite/tags"
)

// A catalog is all bases by id.
type catalog map[string]retrieval.Base

// Ref tells the present state of a base.
func (c catalog) Ref(id string) (retrieval.Ref, bool) {
	base, ok := c[id]
	if !ok {
		return retrieval.Ref{}, false
	}
	return base.Ref(), true
}

func (c catalog) ids() []string { return slices.Sorted(maps.Keys(c)) }

// unready lists the bases that cannot answer yet.
func (c catalog) unready() []string {
	var why []string
	for _, id := range c.ids() {
		if c[id].Ref().Generation == "" {
			why = append(why, "knowledge "+id+": indexing")
		}
	}
	return why
}

// openBases makes the bases of the configuration. Those in this process are still
// to be indexed; the stores elsewhere are looked after from now on, until close.
func (s *stack) openBases() {
	for name, k := range s.cfg.Knowledge {
		id := string(name)
		if k.Engine == config.EngineVectorStore {
			store := vectorstore.Open(s.storeOptions(name))
			s.remote[id], s.bases[id] = store, store
			continue
		}
		base := s.embed(id, k.Path)
		s.embedded[id], s.bases[id] = base, base
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

// trouble says what does not work at present, a line each.
func (s *stack) trouble() []string {
	lines := s.shared.trouble()
	for _, id := range s.bases.ids() {
		if store, ok := s.remote[id]; ok {
			lines = append(lines, store.Trouble()...)
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
	for _, id := range s.bases.ids() {
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
