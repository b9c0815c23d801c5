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

// A Access is the access that a Library has to its folder.
type Access int

// The kinds of access.
const (
	NotOpen   Access = iota // not open
	Following               // open for reading
	Writing
)

// A state is what a library shares with its bases: the state folder, the open store, and known
// errors.
type state struct {
	reader  reader
	options Options
	dir     string

	mu       sync.Mutex // guards the fields below
	store    *store.Store
	standing Access
	stuck    error // error of the last poll by Follow
	bases    map[string]*base

	life       context.Context // for background work
	end        context.CancelFunc
	background sync.WaitGroup
	merging    chan struct{} // a semaphore: only one merge runs at a time
}

// New returns the library of a folder that is not open yet. Until Open its bases answer as if they
// were not indexed yet.
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

// Open opens the folder, to write it or to follow its writer, replacing the open store. If it
// fails, the open store stays open. Bases keep their Content until Load or Follow refreshes them.
//
// It returns the errors of store.Open and store.OpenReadOnly.
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

// Leave stops using the folder until it is opened again.
func (l *state) Leave(ctx context.Context) error {
	empty, err := store.Empty(ctx)
	if err != nil {
		return fmt.Errorf("leave %s: %w", l.dir, err)
	}
	return l.swap(empty, NotOpen)
}

// swap replaces the open store. The old one is closed when the reads in progress on it have ended.
func (l *state) swap(s *store.Store, standing Access) error {
	l.mu.Lock()
	if l.life.Err() != nil {
		l.mu.Unlock()
		return errors.Join(ErrClosed, s.Close())
	}
	old := l.store
	l.store, l.standing, l.stuck = s, standing, nil
	for _, b := range l.bases {
		b.damage, b.refreshErr = nil, nil
	}
	l.mu.Unlock()
	if err := old.Close(); err != nil {
		l.options.Trouble(Trouble{Err: err})
	}
	return nil
}

// Standing returns the current access to the folder.
func (l *state) Standing() Access {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standing
}

func (l *state) writes() bool { return l.Standing() == Writing }

// Replaced reports whether the database file has been replaced since it was opened.
func (l *state) Replaced(ctx context.Context) bool {
	_, err := l.currentStore().Version(ctx)
	return errors.Is(err, store.ErrReplaced)
}

// BaseError returns what is known to be wrong with a base, or nil: damage in its documents found
// since the folder was opened, or else the error of the last attempt to refresh it from the store.
// For "" it returns why Follow cannot read the store.
func (l *state) BaseError(base string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if base == "" {
		return l.stuck
	}
	if b := l.bases[base]; b != nil {
		return cmp.Or(b.damage, b.refreshErr)
	}
	return nil
}

// BasesWithErrors returns the ids of the bases for which BaseError returns an error, sorted.
func (l *state) BasesWithErrors() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := slices.Sorted(maps.Keys(l.bases))
	return slices.DeleteFunc(ids, func(id string) bool { return l.bases[id].damage == nil && l.bases[id].refreshErr == nil })
}

// note returns err. If it indicates damage in a base, BaseError returns it from now on.
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

// Base returns the base with an id, always the same one. Until it exists in the store, it answers
// as if it were not indexed yet.
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

// Bases returns the ids of the bases that have a Content, sorted.
func (l *state) Bases() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := slices.Sorted(maps.Keys(l.bases))
	return slices.DeleteFunc(ids, func(id string) bool { return l.bases[id].Content() == nil })
}

// currentStore returns the open store; a follower reopens it if its file is replaced.
func (l *state) currentStore() *store.Store {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store
}

// change runs f exclusively: calls for the same base wait for each other.
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

// inBackground runs f in a goroutine unless the library is being closed.
func (l *state) inBackground(f func(ctx context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() == nil {
		l.background.Go(func() { f(l.life) })
	}
}
