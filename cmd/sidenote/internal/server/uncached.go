package server

import (
	"sidenote/retrieval"
	"sidenote/retrieval/followup"
	"sidenote/retrieval/knowledge"
)

// Content returns what an embedded base of the configuration answers from; nil where there is
// none, or not yet.
func Content(e *Engine, id string) *knowledge.Content {
	if base := e.Bases.made.Load().embedded[id]; base != nil {
		return base.Content()
	}
	return nil
}

// Arms returns what ranks all that the embedded bases of a query hold by words alone, and by
// vectors alone, without caches: for measuring.
func Arms(e *Engine) (words, vectors retrieval.Retriever) {
	all := e.catalogue.group
	arm := func(g *knowledge.Group) retrieval.Retriever {
		g.Base, g.Start, g.Wait, g.Analysed = all.Base, all.Start, all.Wait, all.Analysed
		return &retrieval.Prepare{Next: g, Ref: e.catalogue.Ref, HasTerms: all.Analysed.HasTerms, Join: followup.Join}
	}
	return arm(&knowledge.Group{}), arm(&knowledge.Group{Questions: all.Questions, VectorsOnly: true})
}

// Uncached returns what ranks all that the embedded bases of a query hold, what ranks all that a
// plan's queries find in them in the order of requests, and what answers requests from them, all
// without caches: for measuring.
func Uncached(e *Engine) (ranking, ordered, request retrieval.Retriever) {
	analysed := e.catalogue.group.Analysed
	prepared := func(next retrieval.Retriever) retrieval.Retriever {
		return &retrieval.Prepare{Next: next, Ref: e.catalogue.Ref, HasTerms: analysed.HasTerms, Join: followup.Join}
	}
	group := func(string) retrieval.Retriever { return e.catalogue.group }
	all := func(string) bool { return true }
	pipeline := func(whole bool) retrieval.Retriever {
		return prepared(&retrieval.Pipeline{Bases: group, Joint: all, Terms: analysed.Terms, Whole: whole})
	}
	return prepared(e.catalogue.group), pipeline(true), pipeline(false)
}
