// Package library keeps knowledge bases in a state folder. One process writes the folder; any
// number of others may follow it.
package library

import (
	"context"
	"errors"
	"slices"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/store"
)

// A Library is a set of knowledge bases in a state folder. The store is authoritative for
// documents. Searches use segments, memory-mapped files made from the documents; losing one costs
// only the time to make it again.
//
// What a base answers depends only on its documents: the same documents give the same generation,
// hits and scores, whichever process wrote them and in whatever order.
//
// A Library is safe for concurrent use. Changes of one base are serialized; searches never wait.
type Library struct{ *state }

// Options are the options of Open; the zero value opens a folder for writing.
type Options struct {
	// Address is where this process accepts work from other processes; those that want to write
	// the folder are given it.
	Address string
	// ReadOnly opens the folder to follow its writer, see Follow.
	ReadOnly bool
	// Wanted, if not nil, decides which stored bases are loaded; the others answer as if they were
	// not indexed yet.
	Wanted func(store.Base) bool
	// Space, if not nil, returns the vector space of a base; false if it is searched by words
	// only.
	Space func(base string) (retrieval.Space, bool)
	// Questions embeds the questions that bases are measured with; nil to embed none, as in a
	// follower.
	Questions retrieval.Embedder
	// Changed, if not nil, is called after a base has got another Content. It may be called
	// concurrently and must not change the library.
	Changed func(base string)
	// Trouble, if not nil, is called for errors that did not stop anything: a damaged segment that
	// is made again, or no space to write one. It may be called concurrently.
	Trouble func(Trouble)

	before func(step string) // called before each change of the folder; may be nil
}

// Trouble is a problem with a base.
type Trouble struct {
	Knowledge string
	File      string // file name of the segment; "" if none is concerned
	Err       error
}

// ErrClosed is returned by a Library that is closed.
var ErrClosed = errors.New("the library is closed")

// Open opens a folder, or store.Memory. Its bases answer after Load.
//
// It returns the errors of store.Open and store.OpenReadOnly, such as *store.LockedError.
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

// Load loads the stored bases for which wanted returns true (all if nil), and refreshes those that
// are loaded already. Missing or damaged segments are made again from the documents. The error
// names the bases that cannot be opened; the others answer. A base that is no longer in the store
// stops answering.
func (l *Library) Load(ctx context.Context, wanted func(store.Base) bool) error {
	bases, err := l.currentStore().Bases(ctx)
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

// Reload refreshes one base from the store, or unloads it if Options.Wanted now rejects it. It is
// not an error if the store has no such base.
func (l *Library) Reload(ctx context.Context, id string) error {
	return l.change(ctx, id, func(b *base) error { return b.refresh(ctx, true) })
}

// Close stops background work and closes the folder. The bases can still be searched as they are.
func (l *Library) Close() error {
	l.mu.Lock()
	closed := l.life.Err() != nil
	l.end() // nothing is started from here on
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.background.Wait()
	return l.currentStore().Close()
}
