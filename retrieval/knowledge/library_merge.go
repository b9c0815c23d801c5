package knowledge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sidenote/retrieval/knowledge/bm25"
	"sidenote/retrieval/knowledge/store"
)

const (
	// mergeAt is how many shelves of one size are left alone.
	mergeAt = 8
	// mergeBytes bounds the texts of a merged shelf: twice as much is on the heap
	// while it is made.
	mergeBytes = 256 << 20
	// fullTexts is from how many texts on a shelf is not merged for its size.
	fullTexts = bm25.MaxTexts / 2
)

// sizeOf returns the size class of a shelf: each holds sixteen times the texts of the
// one before, so a text is merged three or four times in its life.
func sizeOf(texts int) (class int) {
	for limit := 512; texts >= limit; limit *= 16 {
		class++
	}
	return class
}

// toMerge returns the shelves that should become one, nil for none: a third of whose
// documents are gone, or more than mergeAt of a size. A search looks a term up on
// each shelf, and reads past the postings of what is gone.
func toMerge(shelves []placed) (chosen []placed) {
	sizes := map[int][]placed{}
	for _, s := range shelves {
		if s.name == "" {
			continue // a stopgap, for which there was no room
		}
		if s.gone != nil && (s.left == 0 || 3*s.live.Len() < 2*s.texts.count || 3*s.left < 2*s.texts.documents) {
			return []placed{s}
		}
		if s.live.Len() < fullTexts {
			class := sizeOf(s.live.Len())
			sizes[class] = append(sizes[class], s)
		}
	}
	for class := range sizeOf(bm25.MaxTexts) + 1 {
		if len(sizes[class]) > mergeAt {
			return fitting(sizes[class])
		}
	}
	return nil
}

// fitting returns as many of the shelves as fit on one, the smallest first.
func fitting(shelves []placed) []placed {
	slices.SortStableFunc(shelves, func(a, b placed) int { return a.live.Len() - b.live.Len() })
	texts, bytes := 0, 0
	for i, s := range shelves {
		texts, bytes = texts+s.live.Len(), bytes+len(s.texts.bodies)
		if i > 1 && (texts > bm25.MaxTexts || bytes > mergeBytes) {
			return shelves[:i]
		}
	}
	return shelves
}

// tidy merges shelves of a base behind the back of its searches, if that is due. One
// merge goes on at a time.
func (l *Library) tidy(b *shelved) {
	if c := b.Content(); c == nil || toMerge(c.shelves) == nil || !b.tidying.CompareAndSwap(false, true) {
		return
	}
	l.inBackground(func(ctx context.Context) {
		defer b.tidying.Store(false)
		select {
		case l.merging <- struct{}{}:
			defer func() { <-l.merging }()
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			var err error
			if more, err = l.mergeOnce(ctx, b); err != nil {
				l.mergeFailed(ctx, b, err)
				return
			}
		}
	})
}

func (l *Library) mergeFailed(ctx context.Context, b *shelved, err error) {
	if damage := (*shelfError)(nil); errors.As(err, &damage) {
		l.met(b, damage)
	} else if ctx.Err() == nil {
		l.report(b, "", fmt.Errorf("merge shelves of knowledge %s: %w", b.id, err))
	}
}

// mergeOnce merges some shelves and tells whether it did. The work is done while the
// base may be changed: a document that goes meanwhile is gone on the merged shelf,
// too, which covers it all the same.
func (l *Library) mergeOnce(ctx context.Context, b *shelved) (merged bool, err error) {
	c := b.Content()
	if c == nil {
		return false, nil
	}
	sources := toMerge(c.shelves)
	if sources == nil {
		return false, nil
	}
	var image []byte
	var rows []int64
	if slices.ContainsFunc(sources, func(s placed) bool { return s.left > 0 }) {
		err := c.guard(func() (err error) {
			image, rows, err = mergeShelves(sources)
			return err
		})
		if err != nil {
			return false, err
		}
	}
	err = l.change(ctx, b.id, func(b *shelved) error {
		if err := l.replace(ctx, b, sources, image, rows); err != nil {
			return err
		}
		return l.refresh(ctx, b, true)
	})
	if errors.Is(err, store.ErrNotFound) { // dropped meanwhile: damaged, or with the base
		return false, nil
	}
	return err == nil, err
}

// replace puts a merged shelf in place of its sources, nothing if nothing is left.
func (l *Library) replace(ctx context.Context, b *shelved, sources []placed, image []byte, rows []int64) error {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.name
	}
	if image != nil {
		_, err := l.truth().PutSegment(ctx, b.id, image, rows, names...)
		return err
	}
	for _, name := range names {
		if err := l.truth().DropSegment(ctx, b.id, name); err != nil {
			return err
		}
	}
	return nil
}
