package library

import (
	"context"
	"fmt"
	"iter"

	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

// putAll writes documents to the store and segments of them. Where that is cut short,
// documents that are in no segment yet get into one with the next change, or when the
// folder is opened.
func (b *base) putAll(ctx context.Context, documents []store.Document) error {
	writer := index.Writer{Emit: b.putSegment(ctx)}
	for batch := range batches(documents) {
		if err := b.putBatch(ctx, batch, &writer); err != nil {
			return err
		}
	}
	return writer.Flush()
}

// putBatch writes documents in one transaction and adds them to the index.
func (b *base) putBatch(ctx context.Context, batch []store.Document, writer *index.Writer) error {
	rows, err := b.state.truth().Put(ctx, b.ID(), batch)
	if err != nil {
		return err
	}
	for i := range batch {
		if err := writer.Add(b.state.reader.indexed(&store.Entry{Row: rows[i], Document: batch[i]})); err != nil {
			return fmt.Errorf("index knowledge %s: %w", b.ID(), err)
		}
	}
	return nil
}

// batches divides documents into transactions.
func batches(documents []store.Document) iter.Seq[[]store.Document] {
	return func(yield func([]store.Document) bool) {
		start, bytes := 0, 0
		for i := range documents {
			size := 0
			for _, c := range documents[i].Chunks {
				size += len(c.Text)
			}
			if i > start && (i-start == putDocuments || bytes+size > putBytes) {
				if !yield(documents[start:i]) {
					return
				}
				start, bytes = i, 0
			}
			bytes += size
		}
		if start < len(documents) {
			yield(documents[start:])
		}
	}
}

// settle lets a base answer from what was written, and starts a merge where one is due.
func (b *base) settle(ctx context.Context) error {
	if err := b.refresh(ctx, true); err != nil {
		return err
	}
	b.tidy()
	return nil
}
