package server

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/library"
)

// A catalogue lists all bases: those of the configuration, and others in the state folder,
// which are made and deleted while the process runs. The latter are in no tenant's policy,
// so only the admin port searches them.
type catalogue struct {
	named   atomic.Pointer[map[string]retrieval.Base] // by id; a map is never changed
	library *library.Library                          // nil without a state folder

	group *knowledge.Group // of the embedded bases

	cached   func(retrieval.Base) retrieval.Retriever // puts its caches before a base elsewhere
	together retrieval.Retriever                      // the group behind its caches
	mu       sync.Mutex
	made     map[string]retrieval.Retriever // by id: one each, because flights are shared in it
}

// base returns the base of an id.
func (c *catalogue) base(id string) (retrieval.Base, bool) {
	if base, ok := (*c.named.Load())[id]; ok {
		return base, true
	}
	// Bases is asked first because Base adds any id that it is asked for.
	if c.library != nil && slices.Contains(c.library.Bases(), id) {
		return c.library.Base(id), true
	}
	return nil, false
}

// embedded returns an embedded base, nil where there is none.
func (c *catalogue) embedded(id string) *knowledge.Base {
	base, _ := c.base(id)
	embedded, _ := base.(*knowledge.Base)
	return embedded
}

// joint tells which bases rank as one: the embedded ones.
func (c *catalogue) joint(id string) bool { return c.retriever(id) == c.together }

// Ref tells the present state of a base.
func (c *catalogue) Ref(id string) (retrieval.Ref, bool) {
	base, ok := c.base(id)
	if !ok {
		return retrieval.Ref{}, false
	}
	return base.Ref(), true
}

// ids lists all bases.
func (c *catalogue) ids() []string {
	ids := slices.Collect(maps.Keys(*c.named.Load()))
	if c.library != nil {
		ids = append(ids, c.library.Bases()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// retriever returns what searches a base through its caches; nil where there is none.
func (c *catalogue) retriever(id string) retrieval.Retriever {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.made[id]; r != nil {
		return r // a base that was deleted since answers like one still to be indexed
	}
	base, ok := c.base(id)
	if !ok {
		return nil
	}
	if _, embedded := base.(*knowledge.Base); embedded {
		c.made[id] = c.together
	} else {
		c.made[id] = c.cached(base)
	}
	return c.made[id]
}
