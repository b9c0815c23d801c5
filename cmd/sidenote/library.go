package main

import (
	"context"
	"sync"
	"time"

	"sidenote/proxy/admin"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
)

// A library is what the admin port shows of knowledge bases in the shape of
// OpenAI's vector stores.
type library struct {
	bases   *catalog
	search  retrieval.Retriever
	created time.Time

	mu    sync.Mutex
	known map[string]admin.Store // what is known of a base beside its content
}

// newLibrary returns the library of some bases. Each is searched as the pipeline
// searches it: candidates is what it asks, the cache in front of the base.
func newLibrary(bases *catalog, candidates func(id string) retrieval.Retriever, terms func(string) []string) *library {
	one := func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		q.Settings = retrieval.Settings{NumCandidates: q.Settings.NumCandidates}
		base := candidates(q.Bases[0].Knowledge)
		if base == nil { // deleted since it was looked up
			return retrieval.Result{Reason: retrieval.ReasonNoKnowledge}, retrieval.ErrUnavailable
		}
		return base.Retrieve(ctx, q)
	}
	return &library{
		bases: bases, search: retrieval.Prepare{Next: retrieval.Func(one), Catalog: bases, Terms: terms},
		created: time.Now(), known: map[string]admin.Store{},
	}
}

// Candidates searches one base.
func (l *library) Candidates(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	return l.search.Retrieve(ctx, q)
}

// noteChange notes that a base holds something else from now on.
func (l *library) noteChange(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[id] = admin.Store{Changed: time.Now()}
}

// noteStore notes what a store elsewhere holds.
func (l *library) noteStore(id string, files int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.known[id]
	if s.Changed.IsZero() || s.Files != files || s.Bytes != bytes {
		l.known[id] = admin.Store{Changed: time.Now(), Files: files, Bytes: bytes}
	}
}

// Store tells what a base holds.
func (l *library) Store(id string) (admin.Store, bool) {
	base, ok := l.bases.base(id)
	if !ok {
		return admin.Store{}, false
	}
	l.mu.Lock()
	s := l.known[id]
	l.mu.Unlock()
	s.Created = l.created
	embedded, ok := base.(*knowledge.Base)
	if !ok {
		s.Generation = base.Ref().Generation
		return s, true
	}
	c := embedded.Content()
	if c == nil {
		return s, true
	}
	s.Generation, s.Files, s.Bytes = c.Generation(), c.Documents(), c.Bytes()
	s.File = func(i int) admin.File { return fileOf(c.Held(i)) }
	return s, true
}

func fileOf(h knowledge.Held) admin.File {
	return admin.File{ID: h.ID, Name: h.Name, Chunks: h.Chunks, Bytes: int64(h.Bytes), Attributes: h.Attributes}
}
