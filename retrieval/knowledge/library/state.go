package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"sidenote/retrieval/knowledge"
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

// A state is what a library shares with its bases: the state folder, the store that is
// open, and what is known to be wrong.
type state struct {
	reader  reader
	options Options
	dir     string

	mu       sync.Mutex // guards what follows
	store    *store.Store
	standing Standing
	stuck    error // why Follow could not look the last time
	bases    map[string]*base

	life       context.Context // of the work in the background
	end        context.CancelFunc
	background sync.WaitGroup
	merging    chan struct{} // held by the one merge at a time
}

// New returns the library of a folder that is not open yet. Until Open its bases answer
// like bases that are still to be indexed.
func New(ctx context.Context, dir string, deps knowledge.Deps, o Options) (*Library, error) {
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
	l := &Library{&state{
		options: o, dir: dir, reader: reader{deps: deps, readers: deps.Readers()},
		store: empty, bases: map[string]*base{}, merging: make(chan struct{}, 1),
	}}
	l.life, l.end = context.WithCancel(context.WithoutCancel(ctx))
	return l, nil
}

// Open opens the folder, to write it or to follow its writer, in place of what is open. If
// it fails, what is open stays open. Bases that answer go on with the Content they have
// until Load or Follow refreshes them.
//
// Its errors are those of store.Open and store.OpenReadOnly.
func (l *state) Open(ctx context.Context, write bool) error {
	standing := Following
	var s *store.Store
	var err error
	if write {
		standing = Writing
		s, err = store.Open(ctx, l.dir, store.Options{
			Address: l.options.Address, Before: l.options.before,
			Notice: func(err error) { l.options.Trouble(Trouble{Err: err}) },
		})
	} else {
		s, err = store.OpenReadOnly(ctx, l.dir)
	}
	if err != nil {
		return err
	}
	return l.swap(s, standing)
}

// Leave ends the use of the folder until it is opened again.
func (l *state) Leave(ctx context.Context) error {
	empty, err := store.Empty(ctx)
	if err != nil {
		return fmt.Errorf("leave %s: %w", l.dir, err)
	}
	return l.swap(empty, Apart)
}

// swap puts a store in place of the one that is open, which is closed when the reads
// under way on it have ended.
func (l *state) swap(s *store.Store, standing Standing) error {
	l.mu.Lock()
	if l.life.Err() != nil {
		l.mu.Unlock()
		return errors.Join(ErrClosed, s.Close())
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
func (l *state) Standing() Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standing
}

func (l *state) writes() bool { return l.Standing() == Writing }

// Replaced tells whether the database is no longer the one that was opened.
func (l *state) Replaced(ctx context.Context) bool {
	_, err := l.truth().Version(ctx)
	return errors.Is(err, store.ErrReplaced)
}

// Wrong returns what is known to be wrong with a base, nil for nothing: damage in its
// documents that was met since the folder was opened, else the error of the last attempt
// to let it answer as the store has it. For "" it is why Follow cannot read the store.
func (l *state) Wrong(base string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if base == "" {
		return l.stuck
	}
	if b := l.bases[base]; b != nil {
		return cmp.Or(b.damage, b.unshown)
	}
	return nil
}

// Troubled returns the ids of the bases for which Wrong has an error, sorted.
func (l *state) Troubled() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := slices.Sorted(maps.Keys(l.bases))
	return slices.DeleteFunc(ids, func(id string) bool { return l.bases[id].damage == nil && l.bases[id].unshown == nil })
}

// note returns an error; if it tells of damage in a base, Wrong has it from now on.
func (l *state) note(base string, err error) error {
	corrupt, foreign := (*store.CorruptError)(nil), (*store.ForeignError)(nil)
	if errors.As(err, &corrupt) || errors.As(err, &foreign) {
		b := l.base(base)
		l.mu.Lock()
		defer l.mu.Unlock()
		b.damage = err
	}
	return err
}

// Base returns a base to search, always the same one for an id. While no such base exists,
// it answers like one that is still to be indexed.
func (l *state) Base(id string) *knowledge.Base { return l.base(id).Base }

func (l *state) base(id string) *base {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bases[id]
	if b == nil {
		b = &base{Base: knowledge.New(id), state: l, turn: make(chan struct{}, 1), bad: map[string]error{}, badVectors: map[string]bool{}}
		l.bases[id] = b
	}
	return b
}

// Bases returns the ids of the bases that exist, sorted.
func (l *state) Bases() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := slices.Sorted(maps.Keys(l.bases))
	return slices.DeleteFunc(ids, func(id string) bool { return l.bases[id].Content() == nil })
}

// truth returns the store, which a follower opens again when its file was replaced.
func (l *state) truth() *store.Store {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store
}

// change runs f alone: calls for the same base wait for each other.
func (l *state) change(ctx context.Context, id string, f func(*base) error) error {
	b := l.base(id)
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return fmt.Errorf("change knowledge %s: %w", id, ctx.Err())
	case <-l.life.Done():
		return ErrClosed
	}
	if l.life.Err() != nil {
		return ErrClosed
	}
	return l.note(id, b.Content().Guard(func() error { return f(b) }))
}

// inBackground runs f unless the library is being closed.
func (l *state) inBackground(f func(ctx context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() == nil {
		l.background.Go(func() { f(l.life) })
	}
}
