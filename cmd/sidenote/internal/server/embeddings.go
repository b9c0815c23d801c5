package server

import (
	"sidenote/cache/budget"
	"sidenote/proxy/explain"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/services"
)

// A Use is what a service was sent tokens for.
type Use string

// The uses.
const (
	Passages  = Use(services.Passage)
	Questions = Use(services.Query)
	Planning  = Use(budget.Planner)
	Reranking = Use(budget.Rerank)
	Grading   = Use(budget.Grade)
)

// Vectors returns what makes vectors of texts and the library that keeps them; nil where nothing
// is embedded.
func Vectors(e *Engine) (*services.Embedder, *library.Library) {
	if e.embedding == nil {
		return nil, nil
	}
	return e.embedding.Client, e.Bases.state.library
}

// embeddingsOf says how far the embedding of a base is, in the words of the admin port; nil for
// one that is not embedded.
func embeddingsOf(s *stateFolder, id string) *explain.Embeddings {
	status, ok := s.embedding.Status(id)
	if !ok {
		return nil
	}
	out := &explain.Embeddings{Model: status.Model, Running: status.Running, Refused: status.Refused, Error: status.Problem}
	if c := s.library.Base(id).Content(); c != nil {
		out.Embedded, out.Chunks = c.Embedded()
		if weight, measured := c.DenseWeight(); measured {
			out.DenseWeight = &weight
		}
	}
	return out
}
