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
	// measuring is how long the service has to embed what a base is measured by, and measureBatch
	// how many questions a request has.
	measuring    = 10 * time.Second
	measureBatch = 32
)

// questionKeys returns what the vectors of questions are kept by: they are others than those of
// passages.
func questionKeys(space retrieval.Space, texts []string) (keys []store.VectorKey) {
	space.Input = "question|" + space.Input
	for _, text := range texts {
		keys = append(keys, space.Key(text))
	}
	return keys
}

// questions returns the vectors of questions, nil where they are not all there.
func (l *state) questions(ctx context.Context, space retrieval.Space, texts []string) (vectors [][]float32) {
	keys := questionKeys(space, texts)
	found, err := store.VectorsOf(l.truth()).Get(ctx, keys...)
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

// MeasureKeys returns what the vectors are kept by, in a space, by which a base is measured.
func MeasureKeys(space retrieval.Space, c *knowledge.Content) []store.VectorKey {
	return questionKeys(space, append(knowledge.Probes(), trialsOf(c.Segments())...))
}

// trialsOf returns the questions of knowledge.Trials.
func trialsOf(segments index.Segments) (texts []string) {
	for _, t := range knowledge.Trials(segments) {
		texts = append(texts, t.Question)
	}
	return texts
}

// embedMeasures lets the store have the vectors of the questions by which a base is measured.
// Without them cosines make no answer by themselves and weigh the default; the next call tries
// again.
func embedMeasures(ctx context.Context, l *state, space retrieval.Space, segments index.Segments) {
	if l.options.Questions == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, measuring)
	defer cancel()
	err := embedQuestions(ctx, l, space, knowledge.Probes())
	if err == nil {
		err = embedQuestions(ctx, l, space, trialsOf(segments))
	}
	if err != nil && ctx.Err() == nil {
		l.options.Trouble(Trouble{Err: fmt.Errorf("embed what a base is measured by: %w", err)})
	}
}

// embedQuestions lets the store have the vectors of questions. Those that it has are not sent.
func embedQuestions(ctx context.Context, l *state, space retrieval.Space, texts []string) error {
	vectors, keys := store.VectorsOf(l.truth()), questionKeys(space, texts)
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
