package knowledge

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/store"
)

// entriesPage is how many documents are read of the store at a time.
const entriesPage = 256

// cover makes shelves of documents in the store.
func (l *Library) cover(ctx context.Context, b *shelved, rows []int64, emit func(image []byte, rows []int64) error) error {
	shelve := binder{emit: emit}
	for page := range slices.Chunk(rows, entriesPage) {
		entries, err := l.truth().Entries(ctx, b.id, page)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := shelve.add(l.bound(&entries[i])); err != nil {
				return fmt.Errorf("index knowledge %s: %w", b.id, err)
			}
		}
	}
	return shelve.end()
}

// bound returns a document of the store as it goes into a shelf. What another reader
// counted may be counted otherwise by now, and is left out.
func (l *Library) bound(e *store.Entry) bound {
	d := bound{row: e.Row, id: e.ID, name: e.Name, attributes: document.Encoded(e.Attributes), chunks: make([]chunk.Chunk, len(e.Chunks))}
	for i, c := range e.Chunks {
		d.chunks[i] = chunk.Chunk{Section: c.Section, Text: c.Text}
		if [readerBytes]byte(e.Hash[:readerBytes]) != l.reader {
			continue
		}
		for _, encoding := range slices.Sorted(maps.Keys(c.Tokens)) {
			d.chunks[i].Counts = append(d.chunks[i].Counts, chunk.Count{Counter: chunk.CounterName(l.deps.Version, encoding), Tokens: c.Tokens[encoding]})
		}
	}
	return d
}

// putShelf returns a function that writes shelves of a base to the folder.
func (l *Library) putShelf(ctx context.Context, b *shelved) func(image []byte, rows []int64) error {
	return func(image []byte, rows []int64) error {
		_, err := l.truth().PutSegment(ctx, b.id, image, rows)
		return err
	}
}

// ownShelves returns shelves on the heap: those of a follower, whose writer did not
// get to it or left a damaged file, and of a writer that finds no room.
func (l *Library) ownShelves(ctx context.Context, b *shelved, rows []int64) (own []placed, err error) {
	err = l.cover(ctx, b, rows, func(image []byte, _ []int64) error {
		s, err := openShelf("", image, nil)
		if err == nil {
			own = append(own, s.place(nil, nil))
		}
		return err
	})
	return own, err
}

// met is told of damage that a search met. The search has failed; the base is made
// whole behind its back, once for each file.
func (l *Library) met(b *shelved, e *shelfError) {
	l.inBackground(func(ctx context.Context) {
		err := l.change(ctx, b.id, func(b *shelved) error {
			c := b.Content()
			if c == nil || !slices.ContainsFunc(c.shelves, func(s placed) bool { return s.shelf == e.shelf }) {
				return nil // done
			}
			b.bad[e.shelf.name] = e
			return l.refresh(ctx, b, true)
		})
		if err != nil && ctx.Err() == nil {
			l.report(b, e.shelf.name, err)
		}
	})
}
