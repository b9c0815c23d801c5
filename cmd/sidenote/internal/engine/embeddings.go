package engine

import (
	"context"

	"sidenote/cmd/sidenote/internal/engine/embedding"
	"sidenote/proxy/admin"
	"sidenote/retrieval/embed"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/library"
)

// A Use is what a service was sent tokens for.
type Use string

// The uses.
const (
	Passages  = Use(embed.Passage)
	Questions = Use(embed.Query)
	Planning  = Use("planner")
)

// Embed makes the vectors that chunks of a base lack, which is read to c and whose configuration
// says embed, and returns c with them. e was made with Options.Vectors. progress may be nil.
func Embed(ctx context.Context, e *Engine, id string, c *knowledge.Content, progress func(embedding.Progress)) (*knowledge.Content, embedding.Report, error) {
	kept := e.Bases.state.library
	maker := embedding.NewMaker(e.embedding.Client, kept, int(e.Config.Embeddings.TokensPerDay))
	report, err := maker.EmbedContent(ctx, id, c, progress)
	if err != nil {
		return nil, report, err
	}
	c, err = kept.WithVectors(ctx, id, c)
	return c, report, err
}

// Estimate says what it takes to embed the chunks of c. Where kept is true, those whose vectors
// are in the state folder take nothing. It sends nothing.
func Estimate(ctx context.Context, e *Engine, c *knowledge.Content, kept bool) (embedding.Estimate, error) {
	planner := embedding.Planner{Client: e.embedding.Client}
	if kept {
		vectors := library.VectorsOf(e.Bases.state.library)
		planner.Kept = &vectors
	}
	return planner.Base(ctx, c)
}

// embeddingsOf says how far the embedding of a base is, in the words of the admin port; nil for
// one that is not embedded.
func embeddingsOf(s *stateFolder, id string) *admin.Embeddings {
	status, ok := s.embedding.Status(id)
	if !ok {
		return nil
	}
	out := &admin.Embeddings{Model: status.Model, Running: status.Running, Refused: status.Refused, Error: status.Problem}
	if c := s.library.Base(id).Content(); c != nil {
		out.Embedded, out.Chunks = c.Embedded()
	}
	return out
}
