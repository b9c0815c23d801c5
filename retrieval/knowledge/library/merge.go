package library

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/store"
)

// tidy merges segments of a base in the background if a merge is due. Only one merge runs at a
// time.
func (b *base) tidy() {
	if c := b.Content(); c == nil || c.Segments().ToMerge(b.state.mergeMemory()) == nil && !b.deleted.Load() || !b.merging.CompareAndSwap(false, true) {
		return
	}
	b.state.inBackground(func(ctx context.Context) {
		defer b.merging.Store(false)
		select {
		case b.state.merging <- struct{}{}:
			defer func() { <-b.state.merging }()
		case <-ctx.Done():
			return
		}
		err := b.merge(ctx, func(s index.Segments) index.Segments { return s.ToMerge(b.state.mergeMemory()) })
		for err == nil && b.deleted.Swap(false) {
			_, err = b.purge(ctx)
		}
		if errors.Is(err, folder.ErrNotEnoughMemory) || errors.Is(err, store.ErrReaders) {
			return // the next change tries again
		}
		if damage := (*index.DamageError)(nil); errors.As(err, &damage) {
			b.met(damage)
		} else if err != nil && ctx.Err() == nil {
			b.report("", fmt.Errorf("merge segments of knowledge %s: %w", b.ID(), err))
		}
	})
}

// mergeMemory returns the memory that a merge may take, 0 for no limit: that of a few segments
// made by this process.
func (l *state) mergeMemory() int64 {
	free := l.reader.deps.Memory
	if !free.Limited() {
		return 0
	}
	return mergeSegments * free.Segment()
}

// mergeSegments is the memory that a merge may take, in segments.
const mergeSegments = 3

// merge merges segments as long as choose returns some.
func (b *base) merge(ctx context.Context, choose func(index.Segments) index.Segments) error {
	for {
		if more, err := b.mergeOnce(ctx, choose); !more || err != nil {
			return err
		}
	}
}

// purge writes segments anew in which documents were deleted, and empties the log of the database,
// so that their texts are in no file of the state folder. It returns the number of segments. If that
// fails, the next change tries again.
func (b *base) purge(ctx context.Context) (segments int, err error) {
	err = b.merge(ctx, func(s index.Segments) index.Segments {
		changed := s.Changed()
		segments += len(changed)
		return changed
	})
	if err == nil {
		err = b.state.currentStore().EmptyLog(ctx)
	}
	if err != nil {
		b.deleted.Store(true)
	}
	return segments, err
}

// mergeOnce merges some segments and reports whether it did. The base may change meanwhile: a
// document that is deleted during the merge is marked as deleted in the merged segment too,
// although its row is in it.
func (b *base) mergeOnce(ctx context.Context, choose func(index.Segments) index.Segments) (merged bool, err error) {
	c := b.Content()
	if c == nil {
		return false, nil
	}
	memory := b.state.mergeMemory()
	sources := choose(c.Segments())
	if sources == nil {
		return false, nil
	}
	if !sources.MergedWithin(memory) {
		return false, folder.ErrNotEnoughMemory
	}
	grant, err := b.state.reader.deps.Memory.Take(ctx, memory, memory)
	if err != nil {
		return false, err
	}
	var image []byte
	var rows []int64
	if slices.ContainsFunc(sources, func(s index.Live) bool { return s.Documents > 0 }) {
		err = c.Guard(func() (err error) {
			image, rows, err = index.Merge(sources)
			return err
		})
	}
	grant.Release() // replace may take memory of its own
	if err != nil {
		return false, err
	}
	err = b.state.change(ctx, b.ID(), func(b *base) error {
		if err := b.replace(ctx, sources, image, rows); err != nil {
			return err
		}
		return b.refresh(ctx, true)
	})
	if errors.Is(err, store.ErrNotFound) { // the sources were dropped meanwhile, because of damage or with the base
		return false, nil
	}
	return err == nil, err
}

// replace replaces segments by a merged one, or just drops them if image is nil.
func (b *base) replace(ctx context.Context, sources index.Segments, image []byte, rows []int64) error {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.Name
	}
	if image == nil {
		return b.state.currentStore().DropSegments(ctx, b.ID(), names...)
	}
	vectors, err := b.mergedVectors(ctx, image)
	if err == nil {
		_, err = store.VectorFilesOf(b.state.currentStore()).PutSegment(ctx, b.ID(), image, vectors, rows, names...)
	}
	return err
}

// mergedVectors returns the image of the vectors of a merged segment, so that it is never without
// them; nil if there are none.
func (b *base) mergedVectors(ctx context.Context, image []byte) ([]byte, error) {
	space, wanted := b.state.spaceOf(b.ID())
	if !wanted {
		return nil, nil
	}
	s, err := index.Open("", image, nil)
	if err != nil {
		return nil, err
	}
	return makeVectors(ctx, b.state, s.Without(nil, nil), space)
}
