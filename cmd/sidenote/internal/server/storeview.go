package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"sidenote/proxy/explain"
	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/knowledge"
)

// A storeView presents knowledge bases on the admin port as OpenAI vector stores.
type storeView struct {
	catalogue *catalogue
	search    retrieval.Retriever
	created   time.Time

	mu    sync.Mutex
	known map[string]explain.Store // by id, beside the content
}

// newStoreView returns the view of a catalogue. Each base is searched as in the pipeline, through
// its caches.
func newStoreView(bases *catalogue, hasTerms func(string) bool, unready func(id string) retrieval.Reason) *storeView {
	all := func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		q.Settings = retrieval.Settings{NumCandidates: q.Settings.NumCandidates, DenseWeight: q.Settings.DenseWeight, Fusion: q.Settings.Fusion}
		base := bases.retriever(q.Bases[0].Knowledge)
		apart := func(ref retrieval.Ref) bool { return bases.retriever(ref.Knowledge) != base }
		if base == nil || slices.ContainsFunc(q.Bases[1:], apart) { // deleted since it was looked up
			return retrieval.Result{Reason: retrieval.ReasonNoKnowledge}, retrieval.ErrUnavailable
		}
		return base.Retrieve(ctx, q)
	}
	return &storeView{
		catalogue: bases, search: &retrieval.Prepare{Next: retrieval.WithTexts{Next: retrieval.Func(all), Sketches: true}, Ref: bases.Ref, HasTerms: hasTerms, Unready: unready},
		created: time.Now(), known: map[string]explain.Store{},
	}
}

// Candidates searches one base, or several joint ones.
func (v *storeView) Candidates(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	return v.search.Retrieve(ctx, q)
}

// noteChange records that the content of a base has changed.
func (v *storeView) noteChange(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known[id] = explain.Store{Changed: time.Now()}
}

// noteStore records the size of a vector store.
func (v *storeView) noteStore(id string, files int, bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.known[id]
	if s.Changed.IsZero() || s.Files != files || s.Bytes != bytes {
		v.known[id] = explain.Store{Changed: time.Now(), Files: files, Bytes: bytes}
	}
}

// noteEngine records the size of a base in an engine elsewhere.
func (v *storeView) noteEngine(state engine.State) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.known[state.Base]
	if s.Changed.IsZero() || s.Files != state.Documents || s.Chunks != state.Chunks || s.Bytes != state.Bytes {
		v.known[state.Base] = explain.Store{Changed: time.Now(), Files: state.Documents, Chunks: state.Chunks, Bytes: state.Bytes}
	}
}

// Store describes the content of a base.
func (v *storeView) Store(id string) (explain.Store, bool) {
	base, ok := v.catalogue.base(id)
	if !ok {
		return explain.Store{}, false
	}
	v.mu.Lock()
	s := v.known[id]
	v.mu.Unlock()
	s.Created = v.created
	embedded, ok := base.(*knowledge.Base)
	if s.Joint = ok; !ok {
		s.Generation = base.Ref().Generation
		return s, true
	}
	c := embedded.Content()
	if c == nil {
		return s, true
	}
	s.Generation, s.Files, s.Bytes = c.Generation(), c.Documents(), c.Bytes()
	s.File = func(i int) explain.KnowledgeFile {
		h := c.DocumentAt(i)
		return explain.KnowledgeFile{ID: h.ID, Name: h.Name, Chunks: h.Chunks, Bytes: int64(h.Bytes), Attributes: h.Attributes}
	}
	return s, true
}
