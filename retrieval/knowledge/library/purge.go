package library

import (
	"context"
	"fmt"
	"iter"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/store"
)

// Purged says what Purge did.
type Purged struct {
	Segments int // written anew
	Vectors  int // removed
}

// Purge removes the texts of all documents that were deleted from a base or replaced from the files
// of the state folder, and vectors that no base uses any more. It writes the database anew, which
// needs as much free disk space as that takes.
//
// All vectors stay if no base is known to be searched by vector, or if one that is has not been read.
func (l *Library) Purge(ctx context.Context, id string) (p Purged, err error) {
	b := l.base(id)
	select {
	case l.merging <- struct{}{}:
		defer func() { <-l.merging }()
	case <-ctx.Done():
		return p, ctx.Err()
	}
	b.deleted.Store(false)
	// A deletion that is not shown yet marks no document of a segment.
	if err = l.Reload(ctx, id); err == nil {
		p.Segments, err = b.purge(ctx)
	}
	if err == nil {
		p.Vectors, err = l.retainVectors(ctx)
	}
	if err == nil {
		err = l.currentStore().Scrub(ctx)
	}
	if err != nil {
		return p, fmt.Errorf("purge knowledge %s: %w", id, err)
	}
	return p, nil
}

// retainVectors removes vectors that no base uses.
func (l *Library) retainVectors(ctx context.Context) (removed int, err error) {
	bases, err := l.StoredBases(ctx)
	if err != nil {
		return 0, err
	}
	used := map[store.VectorKey]bool{}
	spaces := 0
	for _, stored := range bases {
		space, ok := l.spaceOf(stored.ID)
		if !ok {
			continue
		}
		spaces++
		c := l.base(stored.ID).Content()
		if c == nil {
			return 0, nil
		}
		for key := range VectorKeys(space, c) {
			used[key] = true
		}
	}
	if spaces == 0 {
		return 0, nil
	}
	return store.VectorsOf(l.currentStore()).Retain(ctx, used)
}

// VectorKeys yields the store keys of the vectors of a base in a space: those of its passages, and
// of the texts by which it is measured.
func VectorKeys(space retrieval.Space, c *knowledge.Content) iter.Seq[store.VectorKey] {
	return func(yield func(store.VectorKey) bool) {
		for passage := range c.Passages() {
			if !yield(space.Key(passage)) {
				return
			}
		}
		for _, key := range MeasureKeys(space, c) {
			if !yield(key) {
				return
			}
		}
	}
}
