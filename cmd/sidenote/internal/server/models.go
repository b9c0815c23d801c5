package server

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/vectorstore"
	"sidenote/rewrite/model"
	"sidenote/rewrite/tokens"
)

// A ModelTable resolves model names to configured rows and their token encodings.
type ModelTable struct {
	Rows      []tokens.Model // first match wins
	Encodings *tokens.Set
}

// Model returns the properties of a model.
func (m *ModelTable) Model(name string) model.Model {
	row, _ := tokens.Lookup(m.Rows, name)
	counter, err := m.Encodings.Encoding(row.Encoding)
	if err != nil {
		panic("BUG: model table: " + err.Error())
	}
	return model.Model{
		Row: cmp.Or(row.Configured, row.Match), Encoding: row.Encoding, Window: row.Window, MaxOutput: row.MaxOutput, DefaultOutput: row.DefaultOutput,
		Estimated: row.Estimated, NoSystem: row.NoSystem, CompletionCap: row.CompletionCap, Tools: row.Tools, Counter: counter, Images: row.Images,
		FixedTemperature: row.FixedTemperature, Reasoning: row.Reasoning, SearchResults: row.SearchResults, PromptCache: row.PromptCache,
	}
}

// A catalogue lists all bases: those of the configuration, and others in the state folder that are
// created and deleted at run time. The latter are in no tenant's policy, so only the admin port
// searches them.
type catalogue struct {
	named   atomic.Pointer[map[string]retrieval.Base] // by id; each map is immutable
	library *library.Library                          // nil without a state folder

	group *knowledge.Group // of the embedded bases

	together retrieval.Retriever // the group behind its caches
	remote   retrieval.Retriever // the vector stores behind their caches
	engines  retrieval.Retriever // the bases in engines elsewhere behind their caches
}

// base returns the base with an id.
func (c *catalogue) base(id string) (retrieval.Base, bool) {
	if base, ok := (*c.named.Load())[id]; ok {
		return base, true
	}
	// Look the id up in Bases first: Base adds any id that it is asked for.
	if c.library != nil && slices.Contains(c.library.Bases(), id) {
		return c.library.Base(id), true
	}
	return nil, false
}

// embedded returns the embedded base with an id, or nil.
func (c *catalogue) embedded(id string) *knowledge.Base {
	base, _ := c.base(id)
	embedded, _ := base.(*knowledge.Base)
	return embedded
}

// store returns the vector store with an id, or nil.
func (c *catalogue) store(id string) *vectorstore.Base {
	base, _ := c.base(id)
	store, _ := base.(*vectorstore.Base)
	return store
}

// inEngine returns the base with an id in an engine elsewhere, or nil.
func (c *catalogue) inEngine(id string) *engine.Base {
	base, _ := c.base(id)
	b, _ := base.(*engine.Base)
	return b
}

// joint names the group of bases that a base is ranked together with: the embedded ones, those on one
// central Sidenote, or those in one engine; "" if it is ranked alone.
func (c *catalogue) joint(id string) string {
	switch base, _ := c.base(id); base := base.(type) {
	case *knowledge.Base:
		return "embedded"
	case *vectorstore.Base:
		return base.Central()
	case *engine.Base:
		if !base.Mapped() {
			return "engine " + base.Engine().Name()
		}
	}
	return ""
}

// Ref returns the current reference of a base.
func (c *catalogue) Ref(id string) (retrieval.Ref, bool) {
	base, ok := c.base(id)
	if !ok {
		return retrieval.Ref{}, false
	}
	return base.Ref(), true
}

// ids lists the ids of all bases.
func (c *catalogue) ids() []string {
	ids := slices.Collect(maps.Keys(*c.named.Load()))
	if c.library != nil {
		ids = append(ids, c.library.Bases()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// retriever returns the cached retriever of a base, or nil if there is no such base. It is the same
// for all embedded bases, for all vector stores and for all engines, because it shares searches in flight.
func (c *catalogue) retriever(id string) retrieval.Retriever {
	base, ok := c.base(id)
	if !ok {
		return nil
	}
	switch base.(type) {
	case *knowledge.Base:
		return c.together
	case *engine.Base:
		return c.engines
	}
	return c.remote
}
