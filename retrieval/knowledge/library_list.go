package knowledge

import (
	"context"

	"sidenote/retrieval/knowledge/store"
)

// StoredBases returns what the store says of all bases, by id, those included that
// answer nothing at the moment.
func (l *Library) StoredBases(ctx context.Context) ([]store.Base, error) {
	return l.truth().Bases(ctx)
}

// Lookup returns where those of the documents with the given ids came from that a
// base has, by id. It is store.ErrNotFound without the base.
func (l *Library) Lookup(ctx context.Context, base string, ids ...string) (map[string]store.Known, error) {
	known, err := l.truth().Lookup(ctx, base, ids...)
	return known, l.note(base, err)
}
