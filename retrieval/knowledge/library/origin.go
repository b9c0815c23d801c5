package library

import (
	"context"
	"strings"

	"sidenote/retrieval/knowledge/store"
)

// begin prepares a base for what is in a folder. One that is kept with another folder,
// or by other rules, answers no more until it holds what it should: whoever excluded a
// file does not want to see it again after a restart.
func (s *syncing) begin(ctx context.Context) (was store.Base, err error) {
	if err := s.l.truth().CreateBase(ctx, s.b.ID()); err != nil {
		return was, err
	}
	if was, err = s.l.truth().Base(ctx, s.b.ID()); err != nil {
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

// mark notes in the store that the base is on its way to what is in the folder.
func (s *syncing) mark(ctx context.Context, was store.Base) error {
	kept, _, _ := store.ReadOrigin(was.Origin)
	switch {
	case !s.anew:
		return nil
	case was.Documents == 0:
		return s.l.truth().SetOrigin(ctx, s.b.ID(), store.InPart(s.own))
	case placeOf(kept) == placeOf(s.own):
		return s.l.truth().SetOrigin(ctx, s.b.ID(), store.Leaving(kept))
	}
	return s.l.truth().SetOrigin(ctx, s.b.ID(), store.Unsettled)
}

// markPart notes, before documents are written to a base that was whole, that it does
// not hold all that is new. There is no need to if this is the only write.
func (s *syncing) markPart(ctx context.Context, only bool) error {
	if s.wrote || s.anew || only {
		return nil
	}
	return s.l.truth().SetOrigin(ctx, s.b.ID(), store.InPart(s.own))
}

// placeOf returns the folder in an origin, without the rules by which it is read.
func placeOf(origin string) string {
	return origin[:max(strings.LastIndexByte(origin, ' '), 0)]
}
