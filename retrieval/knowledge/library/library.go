// Package library keeps knowledge bases in a state folder, which one process writes and
// any number may follow.
package library

import (
	"context"
	"errors"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/store"
)

// A Library is knowledge bases kept in a state folder. The store is the truth about
// documents; what is searched are segments, files made of them that are mapped into
// memory, and losing one costs time only.
//
// What a base answers depends on the documents in it alone: the same documents give the
// same generation, hits and scores, in whatever order they were written and in whichever
// process.
//
// A Library is safe for concurrent use. Changes of one base wait for each other;
// searches wait for nothing.
type Library struct{ *state }

// Options is what Open needs to know; the zero value opens a folder
// for writing.
type Options struct {
	// Address is where other processes can hand work to this one; they are told it when
	// they want to write the folder.
	Address string
	// ReadOnly opens the folder to follow its writer, see Follow.
	ReadOnly bool
	// Wanted, if not nil, tells by what the store has of a base whether the base answers;
	// others answer like bases that are still to be indexed.
	Wanted func(store.Base) bool
	// Space, if not nil, tells the space of the vectors by which a base is searched; false for one
	// that is searched by words alone.
	Space func(base string) (retrieval.Space, bool)
	// Questions embeds what bases are measured by; nil for nobody, as in a follower.
	Questions retrieval.Embedder
	// Changed, if not nil, is called after a base has got another Content. It may be called
	// by several goroutines at once, and must not change the library.
	Changed func(base string)
	// Trouble, if not nil, is told of errors that stopped nothing: a segment that was damaged
	// and is made again, or that there was no room to write. It may be called by several
	// goroutines at once.
	Trouble func(Trouble)

	before func(step string) // is called before each change of the folder; nil for nobody
}

// Trouble is something that was wrong with a base.
type Trouble struct {
	Knowledge string
	File      string // the file of the segment; "" if it is about none
	Err       error
}

// ErrClosed answers calls to a Library that is closed.
var ErrClosed = errors.New("the library is closed")

// Open opens a folder, or store.Memory. Its bases answer after Load.
//
// Its errors are those of store.Open and store.OpenReadOnly, such as *store.LockedError.
func Open(ctx context.Context, dir string, deps knowledge.Deps, o Options) (*Library, error) {
	l, err := New(ctx, dir, deps, o)
	if err != nil {
		return nil, err
	}
	if err := l.Open(ctx, !o.ReadOnly); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Load lets those bases of the store answer for which wanted is true, and those that
// answer already; a nil wanted stands for all. Segments that are missing or damaged are
// made again from the documents. The error names the bases that cannot be opened; the
// others answer. A base that is no longer in the store stops answering.
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
		errs = append(errs, l.change(ctx, id, func(b *base) error { return b.refresh(ctx, true) }))
	}
	return errors.Join(errs...)
}

// Reload lets one base answer from what the store has of it, or no more, if Options.Wanted
// says so by now. It is no error if the store has no such base.
func (l *Library) Reload(ctx context.Context, id string) error {
	return l.change(ctx, id, func(b *base) error { return b.refresh(ctx, true) })
}

// Close ends the work in the background and the use of the folder. The bases can still be
// searched as they are.
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
