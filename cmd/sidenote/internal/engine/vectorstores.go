package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/vectorstore"
	"sidenote/rewrite/tags"
)

// vectorStores are the bases of the configuration that other services keep.
type vectorStores struct {
	cfg     *config.Config
	stores  map[string]*vectorstore.Base // by id
	view    *storeView
	monitor monitor
}

// open begins to use the store of a base, and asks it now and then until close.
func (v *vectorStores) open(name config.Name) *vectorstore.Base {
	id := string(name)
	store := vectorstore.Open(v.options(name))
	v.stores[id] = store
	v.monitor.watchBreaker("vector_store/"+id, store.Skips)
	return store
}

func (v *vectorStores) options(name config.Name) vectorstore.Options {
	o, id := v.cfg.VectorStore(name), string(name)
	o.Version = tags.Version
	o.Neutralise = func(text string) string {
		clean, n := tags.Vocabulary{}.Neutralise(text, false)
		if n > 0 {
			v.monitor.neutralised(id, n)
		}
		return clean
	}
	o.Looked = func(files int, bytes int64) {
		v.monitor.metrics.Knowledge(id, files, 0, bytes, time.Now())
		v.view.noteStore(id, files, bytes)
	}
	o.Changed = v.monitor.changed
	return o
}

// firstAnswerWait is how long start-up waits for the first answers of stores.
const firstAnswerWait = 2 * time.Second

// await waits until the stores have answered, or some time has passed, and tells for each
// what is known then.
func (v *vectorStores) await(ctx context.Context, tell func(Indexed)) {
	ctx, cancel := context.WithTimeout(ctx, firstAnswerWait)
	defer cancel()
	for _, name := range v.cfg.KnowledgeNames() {
		id := string(name)
		store, ok := v.stores[id]
		if !ok {
			continue
		}
		o := v.cfg.VectorStore(name)
		line := fmt.Sprintf("%s: vector store %s at %s", id, o.Store, o.BaseURL.Host)
		select {
		case <-store.Asked():
		case <-ctx.Done():
			line += ": no answer yet"
		}
		for _, problem := range store.Trouble() {
			line = strings.TrimPrefix(problem, "knowledge ")
		}
		if tell != nil {
			tell(Indexed{ID: id, Line: line})
		}
	}
}

// problems says what is wrong with a store.
func (v *vectorStores) problems(id string) []string {
	lines := v.stores[id].Trouble()
	if len(lines) == 0 && v.stores[id].Ref().Generation == "" {
		return []string{"knowledge " + id + ": indexing"}
	}
	return lines
}

func (v *vectorStores) close() error {
	var errs []error
	for _, store := range v.stores {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}
