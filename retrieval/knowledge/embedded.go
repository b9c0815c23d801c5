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

// Embedded returns how many chunks have a vector, and how many there are.
func (c *Content) Embedded() (chunks, of int) { return c.segments.Embeddings().Len(), c.Chunks() }

// Unembedded goes through the passages of chunks that have no vector. It ends before what is
// damaged. Segments all of whose chunks have one cost nothing.
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

// WithVectors returns a content with vectors of a space: segments are its own, with them.
// probes and trials are as in ContentOptions.
func WithVectors(ctx context.Context, c *Content, segments index.Segments, space retrieval.Space, probes, trials [][]float32) (*Content, error) {
	o := c.options
	o.Generation, o.Probes, o.Trials, o.Before = EmbeddedGeneration(o.Generation, space, segments, probes, trials), probes, trials, c
	return NewContent(ctx, segments, o)
}

// Passages goes through the passages of all chunks. It ends before what is damaged.
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

// EmbeddedGeneration returns the generation of a base whose segments have vectors: that of its
// documents with the space and with what is covered. Without vectors it is that of the
// documents, by which alone it is searched then. Bases all of whose chunks have a vector have
// the same one on every machine; one that is covered in part shares it with nobody. probes and
// trials are as in ContentOptions: what is measured by them is part of what it answers.
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
		parts = append(parts, "with trials 1")
	}
	sum := sha256.Sum256(chunk.Fields(parts...))
	return hex.EncodeToString(sum[:])
}
