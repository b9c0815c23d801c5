package library

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

// The limits of one transaction.
const (
	putDocuments = 256
	putBytes     = 16 << 20 // of texts, unless a single document is larger
)

// CreateBase makes an empty base; it does nothing if the base exists.
func (l *Library) CreateBase(ctx context.Context, id string) error {
	return l.change(ctx, id, func(b *base) error {
		if err := l.currentStore().CreateBase(ctx, id); err != nil || b.Content() != nil {
			return err
		}
		return b.refresh(ctx, true)
	})
}

// DeleteBase removes a base and all its documents. It returns store.ErrNotFound if there is no
// such base.
func (l *Library) DeleteBase(ctx context.Context, id string) error {
	return l.change(ctx, id, func(b *base) error {
		if err := l.currentStore().DeleteBase(ctx, id); err != nil {
			return err
		}
		b.hide()
		l.mu.Lock()
		defer l.mu.Unlock()
		b.damage = nil
		return nil
	})
}

// Put writes documents to a base, replacing those with the same ids, and returns how many were new
// or different. The base answers from them when Put returns. The error is store.ErrNotFound if
// there is no such base. If a document is rejected, for example because of an attribute that
// chunk.Attribute rejects, nothing is written.
//
// More than a few hundred documents are written in several transactions; if one fails, the earlier
// ones stay written.
func (l *Library) Put(ctx context.Context, id string, documents ...chunk.Document) (changed int, err error) {
	if documents, err = checkDocuments(documents); err != nil {
		return 0, fmt.Errorf("write to knowledge %s: %w", id, err)
	}
	err = l.change(ctx, id, func(b *base) error {
		ids := make([]string, len(documents))
		for i, d := range documents {
			ids[i] = d.ID
		}
		known, err := l.currentStore().Lookup(ctx, id, ids...)
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(documents, func(d chunk.Document) bool { return l.reader.isPut(known[d.ID], d) })
		cut, err := l.reader.cutAll(ctx, id, fresh)
		if err != nil {
			return fmt.Errorf("write to knowledge %s: %w", id, err)
		}
		changed = len(cut)
		if len(cut) == 0 && !b.behind {
			return nil
		}
		b.behind = true
		if err := b.putAll(ctx, cut); err != nil {
			return err
		}
		return b.settle(ctx)
	})
	return changed, err
}

// checkDocuments rejects ids that cannot be shown in a list, a header or a prompt, and returns the
// documents as chunk.Document.Normal does.
func checkDocuments(documents []chunk.Document) (checked []chunk.Document, err error) {
	checked = make([]chunk.Document, len(documents))
	seen := make(map[string]bool, len(documents))
	for i, d := range documents {
		switch {
		case d.ID == "":
			return nil, fmt.Errorf("document %d has no id", i)
		case !chunk.Printable(d.ID):
			return nil, fmt.Errorf("document id %q is not printable text", d.ID)
		case seen[d.ID]:
			return nil, fmt.Errorf("document id %q comes twice", d.ID)
		case !utf8.ValidString(d.Text) || !utf8.ValidString(d.Name):
			return nil, fmt.Errorf("document %q is not UTF-8", d.ID)
		}
		seen[d.ID] = true
		if checked[i], err = d.Normal(); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

// Delete removes documents; unknown ids are ignored. The base answers without the documents when
// Delete returns. The error is store.ErrNotFound if there is no such base.
func (l *Library) Delete(ctx context.Context, id string, ids ...string) error {
	return l.change(ctx, id, func(b *base) error {
		b.behind = true
		if err := b.remove(ctx, ids...); err != nil {
			return err
		}
		return b.settle(ctx)
	})
}

// remove removes documents from the store. Their texts stay in segments until these are written anew,
// see tidy.
func (b *base) remove(ctx context.Context, ids ...string) error {
	if err := b.state.currentStore().Delete(ctx, b.ID(), ids...); err != nil {
		return err
	}
	b.deleted.Store(true)
	return nil
}

// putAll writes documents and their segments to the store. If it is interrupted, documents in no
// segment get one with the next change or when the folder is opened.
func (b *base) putAll(ctx context.Context, documents []store.Document) error {
	done, err := b.state.takeSegment(ctx)
	if err != nil {
		return err
	}
	defer done()
	writer := index.Writer{Emit: b.putSegment(ctx), Memory: b.state.segmentMemory()}
	if err := b.putBatches(ctx, documents, &writer); err != nil {
		return err
	}
	return writer.Flush()
}

// putBatches writes documents in transactions and adds them to the index.
func (b *base) putBatches(ctx context.Context, documents []store.Document, writer *index.Writer) error {
	for _, batch := range batches(documents) {
		if err := b.putBatch(ctx, batch, writer); err != nil {
			return err
		}
	}
	return nil
}

// putBatch writes documents in one transaction and adds them to the index.
func (b *base) putBatch(ctx context.Context, batch []store.Document, writer *index.Writer) error {
	rows, err := b.state.currentStore().Put(ctx, b.ID(), batch)
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
func batches(documents []store.Document) (parts [][]store.Document) {
	start, bytes := 0, 0
	for i := range documents {
		size := 0
		for _, c := range documents[i].Chunks {
			size += len(c.Text)
		}
		if i > start && (i-start == putDocuments || bytes+size > putBytes) {
			parts = append(parts, documents[start:i])
			start, bytes = i, 0
		}
		bytes += size
	}
	if start < len(documents) {
		parts = append(parts, documents[start:])
	}
	return parts
}

// settle makes a base answer from what was written, and starts a merge if one is due.
func (b *base) settle(ctx context.Context) error {
	if err := b.refresh(ctx, true); err != nil {
		return err
	}
	b.tidy()
	return nil
}
