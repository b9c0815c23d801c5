package server

import (
	"context"

	"sidenote/retrieval"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/followup"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/vectorstore"
)

// Content returns the content of an embedded base of the configuration, or nil if there is none
// yet.
func Content(e *Engine, id string) *knowledge.Content {
	if base := e.Bases.made.Load().embedded[id]; base != nil {
		return base.Content()
	}
	return nil
}

// WordAndVectorRetrievers returns retrievers that rank everything in a query's embedded bases by
// words alone and by vectors alone. They use no caches and serve for measuring.
func WordAndVectorRetrievers(e *Engine) (words, vectors retrieval.Retriever) {
	all := e.catalogue.group
	arm := func(g *knowledge.Group) retrieval.Retriever {
		g.Base, g.Start, g.Wait, g.Analysed = all.Base, all.Start, all.Wait, all.Analysed
		return &retrieval.Prepare{Next: g, Ref: e.catalogue.Ref, HasTerms: all.Analysed.HasTerms, Join: followup.Join}
	}
	return arm(&knowledge.Group{}), arm(&knowledge.Group{Questions: all.Questions, VectorsOnly: true})
}

// Uncached returns three retrievers without caches, for measuring: ranking ranks everything in a
// query's embedded bases, or in those of one engine, ordered ranks what the queries of a plan find in the order that requests
// get, and request selects as for requests.
func Uncached(e *Engine) (ranking, ordered, request retrieval.Retriever) {
	analysed := e.catalogue.group.Analysed
	prepared := func(next retrieval.Retriever) retrieval.Retriever {
		return &retrieval.Prepare{Next: next, Ref: e.catalogue.Ref, HasTerms: analysed.HasTerms, Join: followup.Join}
	}
	pipeline := func(whole bool) retrieval.Retriever {
		return prepared(&retrieval.Pipeline{Bases: e.catalogue.direct, Joint: e.catalogue.joint, Terms: analysed.Terms, Unfiltered: whole})
	}
	ranked := retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		return e.catalogue.direct(firstOf(q.Bases)).Retrieve(ctx, q)
	})
	return prepared(ranked), pipeline(true), pipeline(false)
}

// direct returns what searches a base, without caches.
func (c *catalogue) direct(id string) retrieval.Retriever {
	switch {
	case c.inEngine(id) != nil:
		return &engine.Bases{Base: c.inEngine}
	case c.store(id) != nil:
		return &vectorstore.Stores{Base: c.store}
	}
	return c.group
}
