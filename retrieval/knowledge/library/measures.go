package library

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/index/dense"
	"sidenote/retrieval/knowledge/store"
)

const (
	// measuring is the time limit for embedding the questions that a base is measured with, and
	// measureBatch how many questions are sent per request.
	measuring    = 10 * time.Second
	measureBatch = 32
)

// questionKeys returns the store keys of question vectors. They differ from those of passages.
func questionKeys(space retrieval.Space, texts []string) (keys []store.VectorKey) {
	space.Input = "question|" + space.Input
	for _, text := range texts {
		keys = append(keys, space.Key(text))
	}
	return keys
}

// questions returns the vectors of questions; nil unless all are stored.
func (l *state) questions(ctx context.Context, space retrieval.Space, texts []string) (vectors [][]float32) {
	keys := questionKeys(space, texts)
	found, err := store.VectorsOf(l.currentStore()).Get(ctx, keys...)
	if err != nil {
		return nil
	}
	for _, key := range keys {
		if found[key] == nil {
			return nil
		}
		vectors = append(vectors, dense.Components(found[key]))
	}
	return vectors
}

// MeasureKeys returns the store keys of the vectors, in a space, that a base is measured with.
func MeasureKeys(space retrieval.Space, c *knowledge.Content) []store.VectorKey {
	return questionKeys(space, append(knowledge.Probes(), knowledge.TrialTexts(c.Segments())...))
}

// embedMeasures embeds and stores the questions that a base is measured with. Without their
// vectors no hit passes by its cosine alone and vectors have the default weight; the next call
// tries again.
func embedMeasures(ctx context.Context, l *state, space retrieval.Space, segments index.Segments) {
	if l.options.Questions == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measuring)
	defer cancel()
	err := embedQuestions(ctx, l, space, knowledge.Probes())
	if err == nil {
		err = embedQuestions(ctx, l, space, knowledge.TrialTexts(segments))
	}
	if err != nil && ctx.Err() == nil {
		l.options.Trouble(Trouble{Err: fmt.Errorf("embed calibration questions: %w", err)})
	}
}

// embedQuestions embeds and stores those questions whose vectors are not stored yet.
func embedQuestions(ctx context.Context, l *state, space retrieval.Space, texts []string) error {
	vectors, keys := store.VectorsOf(l.currentStore()), questionKeys(space, texts)
	found, err := vectors.Get(ctx, keys...)
	if err != nil {
		return err
	}
	var missing []int
	for i, key := range keys {
		if found[key] == nil {
			missing = append(missing, i)
		}
	}
	for batch := range slices.Chunk(missing, measureBatch) {
		send := make([]string, len(batch))
		for i, n := range batch {
			send[i] = texts[n]
		}
		made, err := l.options.Questions.Embed(ctx, send)
		if err != nil {
			return err
		}
		kept := make(map[store.VectorKey][]byte, len(batch))
		for i, n := range batch {
			if kept[keys[n]], err = dense.Quantize(made[i]); err != nil {
				return err
			}
		}
		if err := vectors.Put(ctx, nameOf(space), kept, 0, time.Now()); err != nil {
			return err
		}
	}
	return nil
}
