package knowledge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sidenote/retrieval/knowledge/store"
)

// A Library is knowledge bases kept in a state folder. The store is the truth about
// documents; what is searched are shelves, files made of them that are mapped into
// memory, and losing one costs time only.
//
// What a base answers is a function of the documents in it alone: the same ones give
// the same generation, the same hits and the same scores, whatever they went through
// and in which process.
//
// A Library is safe for concurrent use. Changes of one base wait for each other;
// searches wait for nothing.
type Library struct {
	deps    Deps
	options LibraryOptions
	dir     string
	reader  [readerBytes]byte

	mu       sync.Mutex // guards what follows
	store    *store.Store
	standing Standing
	stuck    error // what kept Follow from looking, the last time
	bases    map[string]*shelved

	life       context.Context // of what goes on in the background
	end        context.CancelFunc
	background sync.WaitGroup
	merging    chan struct{} // held by the one merge at a time
}

// LibraryOptions is what OpenLibrary needs to know; the zero value opens a folder
// for writing.
type LibraryOptions struct {
	// Address is where this process takes work over; others that want to write the
	// folder are told.
	Address string
	// ReadOnly opens the folder to follow its writer, see Follow.
	ReadOnly bool
	// Wanted, if not nil, tells which bases answer, as the store has them: others are
	// as if they were still to be indexed.
	Wanted func(store.Base) bool
	// Changed, if not nil, is told that a base answers from something else from now
	// on, see Base.Content. It may be called by several goroutines at once, and must
	// not change the library.
	Changed func(base string)
	// Trouble, if not nil, is told what was wrong and did not stop anything: a shelf
	// that was damaged and is made again, one for which there was no room. It may be
	// called by several goroutines at once.
	Trouble func(Trouble)

	before func(step string) // is told each change of the folder before it; nil for nobody
}

// Trouble is something that was wrong with a base.
type Trouble struct {
	Knowledge string
	File      string // the file of the shelf; "" if it is about none
	Err       error
}

// ErrNoLibrary answers calls to a Library that is closed.
var ErrNoLibrary = errors.New("the library is closed")

// A shelved is a base of a library.
type shelved struct {
	*Base
	turn    chan struct{} // held by the one that changes the base
	tidying atomic.Bool   // its shelves are being merged

	// Guarded by turn.
	bad    map[string]error // by file: the damage that a search met
	behind bool             // something was written that the Content may not show
	since  time.Time        // from when on a follower waits for a whole state; zero if it does not

	// Guarded by the library's mu; see Wrong.
	unshown error
	damage  error
}

// OpenLibrary opens a folder, or store.Memory. Its bases answer after Load.
//
// Its errors are those of store.Open and store.OpenReadOnly, such as *store.LockedError.
func OpenLibrary(ctx context.Context, dir string, deps Deps, o LibraryOptions) (*Library, error) {
	l, err := NewLibrary(ctx, dir, deps, o)
	if err != nil {
		return nil, err
	}
	if err := l.Open(ctx, !o.ReadOnly); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Load lets the bases answer from what the store holds of them, those that wanted is
// true of; a nil one wants all. Shelves that are missing or damaged, and those that a
// process that died did not get to, are made again from the documents. A base that
// cannot be opened is in the error, and the others answer; one that answered and is no
// longer there does not.
func (l *Library) Load(ctx context.Context, wanted func(store.Base) bool) error {
	bases, err := l.truth().Bases(ctx)
	errs := []error{err}
	ids := l.Bases()
	for _, b := range bases {
		if wanted == nil || wanted(b) {
			ids = append(ids, b.ID)
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		errs = append(errs, l.change(ctx, id, func(b *shelved) error { return l.refresh(ctx, b, true) }))
	}
	return errors.Join(errs...)
}

// Close ends what goes on in the background, and the use of the folder. What the
// bases hold can still be searched.
func (l *Library) Close() error {
	l.mu.Lock()
	closed := l.life.Err() != nil
	l.end() // from here on nothing is started
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.background.Wait()
	return l.truth().Close()
}

// Base returns a base to search. It is the same for as long as the library is open,
// whether the base exists yet, no longer, or again: where it does not, it answers
// like one that is still to be indexed.
func (l *Library) Base(id string) *Base { return l.shelved(id).Base }

func (l *Library) shelved(id string) *shelved {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bases[id]
	if b == nil {
		b = &shelved{Base: New(id), turn: make(chan struct{}, 1), bad: map[string]error{}}
		l.bases[id] = b
	}
	return b
}

// Bases returns the ids of the bases that exist, sorted.
func (l *Library) Bases() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := slices.Sorted(maps.Keys(l.bases))
	return slices.DeleteFunc(ids, func(id string) bool { return l.bases[id].Content() == nil })
}

// truth returns the store, which a follower exchanges when its file was replaced.
func (l *Library) truth() *store.Store {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store
}

// change runs f when it is this call's turn to change a base.
func (l *Library) change(ctx context.Context, id string, f func(*shelved) error) error {
	b := l.shelved(id)
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return fmt.Errorf("change knowledge %s: %w", id, ctx.Err())
	case <-l.life.Done():
		return ErrNoLibrary
	}
	if l.life.Err() != nil {
		return ErrNoLibrary
	}
	return l.note(id, b.Content().guard(func() error { return f(b) }))
}

// inBackground runs f unless the library is being closed.
func (l *Library) inBackground(f func(ctx context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() == nil {
		l.background.Go(func() { f(l.life) })
	}
}

// report tells of trouble.
func (l *Library) report(b *shelved, file string, err error) {
	l.options.Trouble(Trouble{Knowledge: b.id, File: file, Err: err})
}
