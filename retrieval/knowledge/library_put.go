package knowledge

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/store"
)

// How much is written in one transaction, at most.
const (
	putDocuments = 256
	putBytes     = 16 << 20 // of texts, but for a document that is larger by itself
)

// readerBytes is how much of a document's hash names what cut it.
const readerBytes = 8

// readerOf names everything that turns a text into chunks: a document that another
// reader has cut has to be read again. The analyser is not among it, as shelves are
// made of chunks.
func readerOf(deps Deps) [readerBytes]byte {
	pdf := ""
	if deps.Child != nil {
		pdf = deps.Child.By(extract.PDF)
	}
	sum := sha256.Sum256(document.Fields("sidenote reader", version, extract.Version, strconv.Itoa(chunk.MaxTokens), deps.Version, pdf))
	return [readerBytes]byte(sum[:readerBytes])
}

// hash returns what tells whether a document has to be read again: what cuts it, what
// gave it its attributes, which is zero for one that Put wrote, and what it says.
func (l *Library) hash(rules [folder.RulesBytes]byte, sum document.Sum) (hash [32]byte) {
	copy(hash[:], l.reader[:])
	copy(hash[readerBytes:], rules[:])
	copy(hash[readerBytes+folder.RulesBytes:], sum[:])
	return hash
}

// CreateBase makes an empty base; one that exists already is left as it is.
func (l *Library) CreateBase(ctx context.Context, id string) error {
	return l.change(ctx, id, func(b *shelved) error { return l.create(ctx, b) })
}

func (l *Library) create(ctx context.Context, b *shelved) error {
	if err := l.truth().CreateBase(ctx, b.id); err != nil || b.Content() != nil {
		return err
	}
	return l.refresh(ctx, b, true)
}

// DeleteBase removes a base with all its documents. It is store.ErrNotFound if there
// is none.
func (l *Library) DeleteBase(ctx context.Context, id string) error {
	return l.change(ctx, id, func(b *shelved) error {
		if err := l.truth().DeleteBase(ctx, id); err != nil {
			return err
		}
		l.hide(b)
		l.mu.Lock()
		defer l.mu.Unlock()
		b.damage = nil
		return nil
	})
}

// Put writes documents to a base, in place of those with the same ids, and returns
// how many of them were not there yet as they are. The base answers from them when
// it returns. It is store.ErrNotFound without the base; documents that are refused,
// as for an attribute that document.Attribute refuses, leave everything as it was.
//
// More than a few hundred documents are written in several transactions: where one
// fails, those before it stand.
func (l *Library) Put(ctx context.Context, base string, documents ...document.Document) (changed int, err error) {
	if documents, err = checkDocuments(documents); err != nil {
		return 0, fmt.Errorf("write to knowledge %s: %w", base, err)
	}
	err = l.change(ctx, base, func(b *shelved) error {
		ids := make([]string, len(documents))
		for i, d := range documents {
			ids[i] = d.ID
		}
		known, err := l.truth().Lookup(ctx, base, ids...)
		if err != nil {
			return err
		}
		var fresh []document.Document
		for _, d := range documents {
			if k, ok := known[d.ID]; !ok || k.Source != "" || k.Hash != l.hash(folder.Rules{}.Name, d.Digest()) {
				fresh = append(fresh, d)
			}
		}
		cut, err := l.cutAll(ctx, base, fresh)
		if err != nil {
			return fmt.Errorf("write to knowledge %s: %w", base, err)
		}
		changed = len(cut)
		if len(cut) == 0 && !b.behind {
			return nil
		}
		b.behind = true
		if err := l.putAll(ctx, b, cut); err != nil {
			return err
		}
		return l.settle(ctx, b)
	})
	return changed, err
}

// checkDocuments refuses what cannot stand in a list, a header or a prompt, and
// returns the documents with their attributes as they are kept.
func checkDocuments(documents []document.Document) (checked []document.Document, err error) {
	checked = make([]document.Document, len(documents))
	seen := make(map[string]bool, len(documents))
	for i, d := range documents {
		switch {
		case d.ID == "":
			return nil, fmt.Errorf("document %d has no id", i)
		case !document.Printable(d.ID):
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

// cutAll cuts documents side by side.
func (l *Library) cutAll(ctx context.Context, base string, documents []document.Document) ([]store.Document, error) {
	out := make([]store.Document, len(documents))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, d := range documents {
		g.Go(func() error {
			cut, err := l.deps.Cut(base, d)
			if err != nil {
				return fmt.Errorf("document %q: %w", d.ID, err)
			}
			out[i] = l.document(cut, folder.Rules{}.Name)
			return gctx.Err()
		})
	}
	return out, g.Wait()
}

// document returns a document as the store keeps it; rules gave it its attributes.
func (l *Library) document(cut Cut, rules [folder.RulesBytes]byte) store.Document {
	d := store.Document{ID: cut.ID, Name: cut.Name, Kind: "text", Hash: l.hash(rules, cut.Sum), Attributes: cut.Attributes, Sum: cut.Sum}
	if cut.Markdown {
		d.Kind = "markdown"
	}
	d.Chunks = make([]store.Chunk, len(cut.Chunks))
	for i, p := range cut.Chunks {
		d.Chunks[i] = store.Chunk{Section: p.Section, Text: p.Text}
		for encoding, counter := range l.deps.Encodings {
			if d.Chunks[i].Tokens == nil {
				d.Chunks[i].Tokens = make(map[string]int, len(l.deps.Encodings))
			}
			if n, exact := counter.Count(p.Text); exact {
				d.Chunks[i].Tokens[encoding] = n
			}
		}
	}
	return d
}

// putAll writes documents to the store and shelves of them. Where that is cut short,
// what is on no shelf yet gets on one with the next change, or when the folder is
// opened.
func (l *Library) putAll(ctx context.Context, b *shelved, documents []store.Document) error {
	shelve := binder{emit: l.putShelf(ctx, b)}
	for batch := range batches(documents) {
		if err := l.putBatch(ctx, b, batch, &shelve); err != nil {
			return err
		}
	}
	return shelve.end()
}

// putBatch writes documents in one transaction and gives them to the binder.
func (l *Library) putBatch(ctx context.Context, b *shelved, batch []store.Document, shelve *binder) error {
	rows, err := l.truth().Put(ctx, b.id, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		if err := shelve.add(l.bound(&store.Entry{Row: rows[i], Document: batch[i]})); err != nil {
			return fmt.Errorf("index knowledge %s: %w", b.id, err)
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

// Delete removes documents; ids that are not there are no error. The base answers
// without them when it returns. It is store.ErrNotFound without the base.
func (l *Library) Delete(ctx context.Context, base string, ids ...string) error {
	return l.change(ctx, base, func(b *shelved) error {
		b.behind = true
		if err := l.truth().Delete(ctx, base, ids...); err != nil {
			return err
		}
		return l.settle(ctx, b)
	})
}

// settle lets a base answer from what was written, and sees to its shelves.
func (l *Library) settle(ctx context.Context, b *shelved) error {
	if err := l.refresh(ctx, b, true); err != nil {
		return err
	}
	l.tidy(b)
	return nil
}

// Documents returns at most limit documents of a base, by id, from the first after a
// given one; "" is before all. They come without their chunks. It is
// store.ErrNotFound without the base.
func (l *Library) Documents(ctx context.Context, base, after string, limit int) ([]store.Entry, error) {
	list, err := l.truth().Documents(ctx, base, after, limit)
	return list, l.note(base, err)
}

// Document returns a document with its chunks, or store.ErrNotFound.
func (l *Library) Document(ctx context.Context, base, id string) (store.Entry, error) {
	e, err := l.truth().Document(ctx, base, id)
	return e, l.note(base, err)
}

// Stored returns what the store says of a base, or store.ErrNotFound.
func (l *Library) Stored(ctx context.Context, base string) (store.Base, error) {
	b, err := l.truth().Base(ctx, base)
	return b, l.note(base, err)
}
