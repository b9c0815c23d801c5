package knowledge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sidenote/retrieval/knowledge/store"
)

// A Standing is what a Library may do with its folder.
type Standing int

// The standings.
const (
	Apart     Standing = iota // it is not open
	Following                 // it is open for reading
	Writing
)

// NewLibrary returns the library of a folder that is still to be opened. Until Open it
// holds no base, and those that are asked for answer like ones still to be indexed.
func NewLibrary(ctx context.Context, dir string, deps Deps, o LibraryOptions) (*Library, error) {
	if o.Trouble == nil {
		o.Trouble = func(Trouble) {}
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	empty, err := store.Empty(ctx)
	if err != nil {
		return nil, fmt.Errorf("open library: %w", err)
	}
	l := &Library{
		deps: deps, options: o, dir: dir, reader: readerOf(deps),
		store: empty, bases: map[string]*shelved{}, merging: make(chan struct{}, 1),
	}
	l.life, l.end = context.WithCancel(context.WithoutCancel(ctx))
	return l, nil
}

// Open opens the folder, to write it or to follow its writer, in place of what is open;
// where it cannot, that stays as it is. Bases that answer go on, from what they answered
// from until they are looked at again, by Load or Follow.
//
// Its errors are those of store.Open and store.OpenReadOnly.
func (l *Library) Open(ctx context.Context, write bool) error {
	standing := Following
	var s *store.Store
	var err error
	if write {
		standing = Writing
		s, err = store.Open(ctx, l.dir, store.Options{Address: l.options.Address}.Watched(l.options.before))
	} else {
		s, err = store.OpenReadOnly(ctx, l.dir)
	}
	if err != nil {
		return err
	}
	return l.exchange(s, standing)
}

// Leave ends the use of the folder until it is opened again.
func (l *Library) Leave(ctx context.Context) error {
	empty, err := store.Empty(ctx)
	if err != nil {
		return fmt.Errorf("leave %s: %w", l.dir, err)
	}
	return l.exchange(empty, Apart)
}

// exchange puts a store in place of the one that is open. Reads that are under way on
// that one end first.
func (l *Library) exchange(s *store.Store, standing Standing) error {
	l.mu.Lock()
	if l.life.Err() != nil {
		l.mu.Unlock()
		return errors.Join(ErrNoLibrary, s.Close())
	}
	old := l.store
	l.store, l.standing, l.stuck = s, standing, nil
	for _, b := range l.bases {
		b.damage, b.unshown = nil, nil
	}
	l.mu.Unlock()
	if err := old.Close(); err != nil {
		l.options.Trouble(Trouble{Err: err})
	}
	return nil
}

// Standing tells what the library may do with its folder at present.
func (l *Library) Standing() Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standing
}

func (l *Library) writes() bool { return l.Standing() == Writing }

// Replaced tells whether the database is no longer the one that was opened.
func (l *Library) Replaced(ctx context.Context) bool {
	_, err := l.truth().Version(ctx)
	return errors.Is(err, store.ErrReplaced)
}

// Wrong returns what is known to be wrong with a base, nil for nothing: damage that was
// met in its documents since the folder was opened, else what kept it from answering as
// the store has it when that was tried last. Of "" it is what keeps Follow from looking.
func (l *Library) Wrong(base string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if base == "" {
		return l.stuck
	}
	b := l.bases[base]
	if b == nil {
		return nil
	}
	if b.damage != nil {
		return b.damage
	}
	return b.unshown
}

// Troubled returns the ids of the bases that something is known to be wrong with, sorted.
func (l *Library) Troubled() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := slices.Sorted(maps.Keys(l.bases))
	return slices.DeleteFunc(ids, func(id string) bool { return l.bases[id].damage == nil && l.bases[id].unshown == nil })
}

// note keeps an error that is about damage in a base for Wrong, and returns it.
func (l *Library) note(base string, err error) error {
	corrupt, foreign := (*store.CorruptError)(nil), (*store.ForeignError)(nil)
	if errors.As(err, &corrupt) || errors.As(err, &foreign) {
		b := l.shelved(base)
		l.mu.Lock()
		defer l.mu.Unlock()
		b.damage = err
	}
	return err
}
