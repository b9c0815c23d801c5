package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/vectorstore"
	"sidenote/rewrite/tags"
)

// openStore opens the vector store of a base, which is polled until the Engine is closed.
func (b *Bases) openStore(name config.Name) *vectorstore.Base {
	id := string(name)
	store := vectorstore.Open(b.storeOptions(name))
	b.stores[id], b.closers = store, append(b.closers, store)
	b.monitor.WatchBreaker("vector_store/"+id, store.Skips)
	return store
}

func (b *Bases) storeOptions(name config.Name) vectorstore.Options {
	o, id := b.cfg.Load().VectorStore(name), string(name)
	o.Version = tags.Version
	o.Neutralise = func(text string) string { return b.reader.neutralise(id, text) }
	o.Looked = func(files int, bytes int64) {
		b.monitor.Metrics.Knowledge(id, files, 0, bytes, time.Now())
		b.view.noteStore(id, files, bytes)
	}
	o.Changed = b.monitor.Changed
	return o
}

// firstAnswerWait is how long start-up waits for the first answers of vector stores.
const firstAnswerWait = 2 * time.Second

// AwaitStores waits until the vector stores have reported their state, or firstAnswerWait has
// passed, and calls tell, which may be nil, for each.
func (b *Bases) AwaitStores(ctx context.Context, tell func(Indexed)) {
	ctx, cancel := context.WithTimeout(ctx, firstAnswerWait)
	defer cancel()
	for _, name := range b.cfg.Load().KnowledgeNames() {
		id := string(name)
		store, ok := b.stores[id]
		if !ok {
			continue
		}
		line := id + ": " + b.whereIs(name)
		select {
		case <-store.FirstRead():
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

// whereIs describes where a base elsewhere is, for people.
func (b *Bases) whereIs(name config.Name) string {
	if cfg := b.cfg.Load(); cfg.Knowledge[name].Remote() {
		text := cfg.EngineText(name)
		if base := b.catalogue.inEngine(string(name)); base != nil && base.State().Generation != "" {
			s := base.State()
			text += fmt.Sprintf(": %s, %s", terminal.Plural(s.Documents, "document"), terminal.Plural(s.Chunks, "chunk"))
			for _, remark := range base.Remarks() {
				text += "; " + remark
			}
		}
		return text
	}
	o := b.cfg.Load().VectorStore(name)
	return fmt.Sprintf("vector store %s at %s", o.Store, o.BaseURL.Host)
}

// InEngine returns a base that is in an engine, nil for others.
func (b *Bases) InEngine(id string) *engine.Base {
	base, _ := b.stores[id].(*engine.Base)
	return base
}

// WhyUnavailable returns what is wrong with bases elsewhere instead of an error that says only that
// they cannot be searched, or err if nothing is known.
func (b *Bases) WhyUnavailable(ids []string, err error) error {
	if !errors.Is(err, retrieval.ErrUnavailable) {
		return err
	}
	lines := b.Elsewhere(ids)
	if len(lines) == 0 {
		return err
	}
	return errors.New(strings.Join(lines, "; "))
}

// Elsewhere lists the problems of bases elsewhere, a line each.
func (b *Bases) Elsewhere(ids []string) (lines []string) {
	for _, id := range ids {
		if b.stores[id] == nil {
			continue
		}
		for _, line := range b.storeProblems(id) {
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// RefreshEngines reads what was measured of bases in engines, which otherwise happens after the first
// searches. What fails is in Elsewhere.
func (b *Bases) RefreshEngines(ctx context.Context, ids []string) {
	for _, id := range ids {
		if base := b.InEngine(id); base != nil {
			_ = base.Refresh(ctx)
		}
	}
}

// storeProblems lists the problems of a base elsewhere.
func (b *Bases) storeProblems(id string) []string {
	lines := slices.Clone(b.stores[id].Trouble())
	if x := b.writers[id]; x != nil && b.InEngine(id).Answers() { // else both say the same
		fetch := x.fetchProblems()
		if why := x.status().problem(); why != "" && len(fetch) == 0 {
			lines = append(lines, ofBase(id, why))
		}
		lines = append(lines, fetch...)
		if last := x.status(); last.late() != nil {
			lines = append(lines, last.unembedded(id))
		}
	}
	if len(lines) > 0 || b.stores[id].Ref().Generation != "" {
		return lines
	}
	if name := config.Name(id); b.cfg.Load().Knowledge[name].Remote() {
		return []string{"knowledge " + id + ": nothing was written to " + b.cfg.Load().EnginePlace(name) + " yet"}
	}
	return []string{"knowledge " + id + ": indexing"}
}
