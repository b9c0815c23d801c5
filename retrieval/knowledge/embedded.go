package knowledge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
)

// Embedded returns how many chunks have a vector, and the number of all chunks.
func (c *Content) Embedded() (chunks, of int) { return c.segments.Embeddings().Len(), c.Chunks() }

// Unembedded yields the passages of chunks that have no vector. It stops at the first damaged
// text. Segments whose chunks all have vectors are skipped at no cost.
func (c *Content) Unembedded() iter.Seq[string] {
	return func(yield func(string) bool) {
		_ = c.Guard(func() error { // damage is reported to ContentOptions.Damaged
			for i := range c.segments {
				segment := c.segments[i : i+1]
				if segment.Embeddings().Len() == segment[0].Postings.Len() {
					continue
				}
				for ref, passage := range segment.Passages() {
					if passage != "" && !segment.Embeddings().Has(ref) && !yield(passage) {
						return nil
					}
				}
			}
			return nil
		})
	}
}

// WithVectors returns c with the vectors of a space. segments are the segments of c, with vectors.
// probes and trials are as in ContentOptions.
func WithVectors(ctx context.Context, c *Content, segments index.Segments, space retrieval.Space, probes, trials [][]float32) (*Content, error) {
	o := c.options
	o.Generation, o.Probes, o.Trials, o.Before = EmbeddedGeneration(o.Generation, space, segments, probes, trials), probes, trials, c
	return NewContent(ctx, segments, o)
}

// Passages yields the passages of all chunks. It stops at the first damaged text.
func (c *Content) Passages() iter.Seq[string] {
	return func(yield func(string) bool) {
		_ = c.Guard(func() error { // as above
			for _, passage := range c.segments.Passages() {
				if passage != "" && !yield(passage) {
					return nil
				}
			}
			return nil
		})
	}
}

// EmbeddedGeneration returns the generation of a base whose segments have vectors: a digest of the
// documents' generation, the space and which chunks are embedded. Without vectors it is the
// documents' generation. Fully embedded bases have the same generation on every machine; a partly
// embedded one shares its generation with nobody. probes and trials are as in ContentOptions; they
// are included because what they measure affects the results.
func EmbeddedGeneration(documents string, space retrieval.Space, segments index.Segments, probes, trials [][]float32) string {
	embedded, texts := 0, 0
	parts := []string{"sidenote embedded", documents, space.String(), space.Input}
	for _, s := range segments {
		embedded, texts = embedded+s.Dense.Len(), texts+s.Postings.Len()
	}
	if embedded == 0 {
		return documents
	}
	if embedded < texts {
		for _, s := range segments {
			if s.Vectors != nil {
				parts = append(parts, s.Name, s.Vectors.Name)
			}
		}
	}
	if probes == nil {
		parts = append(parts, "without probes")
	}
	if trials != nil {
		parts = append(parts, "with trials 2")
	}
	sum := sha256.Sum256(chunk.Fields(parts...))
	return hex.EncodeToString(sum[:])
}
