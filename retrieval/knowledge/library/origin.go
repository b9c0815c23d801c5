package library

import (
	"context"
	"strings"

	"sidenote/retrieval/knowledge/store"
)

// begin prepares a base for a Sync. A base that was kept with another folder or other rules stops
// answering until the Sync is complete: a file that is now excluded must not be found any more,
// not even after a restart.
func (s *syncing) begin(ctx context.Context) (was store.Base, err error) {
	if err := s.l.currentStore().CreateBase(ctx, s.b.ID()); err != nil {
		return was, err
	}
	if was, err = s.l.currentStore().Base(ctx, s.b.ID()); err != nil {
		return was, err
	}
	s.own = s.folder.Origin()
	kept, settled, whole := store.ReadOrigin(was.Origin)
	if s.anew = kept != s.own || !settled; s.anew {
		s.b.hide()
	}
	s.b.behind = s.b.behind || s.anew || !whole
	return was, nil
}

// mark records in the store that the base does not hold the whole folder yet.
func (s *syncing) mark(ctx context.Context, was store.Base) error {
	kept, _, _ := store.ReadOrigin(was.Origin)
	switch {
	case !s.anew:
		return nil
	case was.Documents == 0:
		return s.l.currentStore().SetOrigin(ctx, s.b.ID(), store.InPart(s.own))
	case placeOf(kept) == placeOf(s.own):
		return s.l.currentStore().SetOrigin(ctx, s.b.ID(), store.Leaving(kept))
	}
	return s.l.currentStore().SetOrigin(ctx, s.b.ID(), store.Unsettled)
}

// markPart records, before the first of several writes to a complete base, that the base holds
// only part of the new state.
func (s *syncing) markPart(ctx context.Context, only bool) error {
	if s.wrote || s.anew || only {
		return nil
	}
	return s.l.currentStore().SetOrigin(ctx, s.b.ID(), store.InPart(s.own))
}

// placeOf returns the folder of an origin, without the rules for reading it.
func placeOf(origin string) string {
	return origin[:max(strings.LastIndexByte(origin, ' '), 0)]
}
