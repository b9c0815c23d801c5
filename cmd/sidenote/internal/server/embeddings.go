package server

import (
	"sidenote/cache/budget"
	"sidenote/proxy/explain"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/services"
)

// A Use says what tokens were sent to a service for.
type Use string

// The uses.
const (
	Passages  = Use(services.Passage)
	Questions = Use(services.Query)
	Planning  = Use(budget.Planner)
	Reranking = Use(budget.Rerank)
	Grading   = Use(budget.Grade)
)

// Vectors returns the embedding client and the library that keeps its vectors, or nil if nothing
// is embedded.
func Vectors(e *Engine) (*services.Embedder, *library.Library) {
	if e.embedding == nil {
		return nil, nil
	}
	return e.embedding.Client, e.Bases.state.library
}

// embeddingsOf returns the embedding status of a base for the admin port, or nil if it is not
// embedded.
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
