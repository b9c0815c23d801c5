package engine

import (
	"context"
	"maps"
	"slices"

	"sidenote/retrieval/knowledge/index"
)

// embed sets the vectors of chunks: those that the engine has already, and new ones. If the service
// fails, the documents are written without them, and the next Sync tries again.
func (s *syncing) embed(ctx context.Context, documents []Document) error {
	if s.Passages == nil || len(documents) == 0 {
		return nil
	}
	space := s.Passages.Space()
	want, passages, keys := map[string][]*Chunk{}, map[string]string{}, [][]byte(nil)
	for i := range documents {
		d := &documents[i]
		for j := range d.Chunks {
			c := &d.Chunks[j]
			passage := index.PassageOf(d.ID, d.Name, c.Section, c.Text)
			key := space.Key(passage)
			if want[string(key[:])] == nil {
				keys, passages[string(key[:])] = append(keys, key[:]), passage
			}
			want[string(key[:])] = append(want[string(key[:])], c)
		}
	}
	vectors, err := s.lease.Vectors(ctx, keys)
	if err != nil {
		return err
	}
	set := func(key string, v []float32) {
		for _, c := range want[key] {
			c.Vector, c.VectorKey = v, []byte(key)
		}
		delete(passages, key)
	}
	for key, v := range vectors {
		if want[key] != nil {
			set(key, v)
		}
	}
	if err := s.makeVectors(ctx, passages, set); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.stopped = err
	}
	return nil
}

// makeVectors embeds passages, by key, and passes their vectors to set.
func (s *syncing) makeVectors(ctx context.Context, passages map[string]string, set func(key string, v []float32)) error {
	if s.stopped != nil {
		return s.stopped
	}
	keys := slices.Sorted(maps.Keys(passages))
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = passages[key]
	}
	for len(texts) > 0 {
		n, tokens := s.Passages.Fit(texts)
		if n = max(1, n); s.Spend != nil {
			if err := s.Spend(ctx, tokens); err != nil {
				return err
			}
		}
		made, err := s.Passages.Passages(ctx, texts[:n])
		s.Embedding.Tokens += made.Tokens
		if err != nil {
			return err
		}
		for i, v := range made.Vectors {
			if v == nil {
				s.Embedding.Err = made.Why
				if made.Retryable == nil || !made.Retryable[i] {
					s.Embedding.Refused++
				}
				continue
			}
			u, err := unit(v)
			if err != nil {
				return err
			}
			set(keys[i], u)
			s.Embedding.Made++
		}
		keys, texts = keys[n:], texts[n:]
	}
	return nil
}
