package library

import (
	"context"

	"sidenote/retrieval/knowledge/store"
)

// StoredBases returns the stored data of all bases, by id, including those that do not answer now.
func (l *Library) StoredBases(ctx context.Context) ([]store.Base, error) {
	return l.currentStore().Bases(ctx)
}

// Lookup returns, by id, where those of the given documents came from that are in a base. The
// error is store.ErrNotFound if there is no such base.
func (l *Library) Lookup(ctx context.Context, base string, ids ...string) (map[string]store.Known, error) {
	known, err := l.currentStore().Lookup(ctx, base, ids...)
	return known, l.note(base, err)
}

// Document returns a document with its chunks, or store.ErrNotFound.
func (l *Library) Document(ctx context.Context, base, id string) (store.Entry, error) {
	e, err := l.currentStore().Document(ctx, base, id)
	return e, l.note(base, err)
}

// Stored returns the stored data of a base, or store.ErrNotFound.
func (l *Library) Stored(ctx context.Context, base string) (store.Base, error) {
	b, err := l.currentStore().Base(ctx, base)
	return b, l.note(base, err)
}
