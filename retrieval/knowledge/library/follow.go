package library

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sidenote/retrieval/knowledge/store"
)

const (
	// followEvery is the poll interval of a follower.
	followEvery = time.Second
	// followSoon is the poll interval while a base has documents in no segment, as between two
	// writes of its writer, or its folder is being read.
	followSoon = followEvery / 4
	// followPatience is how long a follower waits for the writer to complete such a base, which
	// takes a moment unless the writer is busy or dead.
	followPatience = 4 * time.Second
)

// Follow updates the bases of a read-only library with the changes of its writer until ctx ends; a
// complete change is visible within two seconds. A search never sees part of a change. Errors are
// reported as Trouble and retried.
func (l *Library) Follow(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	f := follower{l: l, since: -1, waiting: map[string]bool{}}
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.life.Done():
			return ErrClosed
		}
		if err := f.poll(ctx); err != nil && ctx.Err() == nil {
			l.options.Trouble(Trouble{Err: fmt.Errorf("follow %s: %w", l.dir, err)})
		}
		next := followEvery
		if len(f.waiting) > 0 {
			next = followSoon
		}
		timer.Reset(next)
	}
}

// A follower is the state that Follow keeps between polls.
type follower struct {
	l       *Library
	since   int64           // store version up to which changes were seen; -1 before the first poll
	waiting map[string]bool // bases to look at again even if nothing changes
}

// poll applies what changed since the last poll.
func (f *follower) poll(ctx context.Context) error {
	version, changed, err := f.changes(ctx)
	if ctx.Err() == nil {
		f.l.mu.Lock()
		f.l.stuck = err
		f.l.mu.Unlock()
	}
	if err != nil {
		return err
	}
	for _, id := range changed {
		f.waiting[id] = true
	}
	f.since = version
	var errs []error
	for id := range f.waiting {
		errs = append(errs, f.l.change(ctx, id, func(b *base) error {
			err := b.refresh(ctx, !b.since.IsZero() && time.Since(b.since) >= followPatience)
			if err == nil && b.since.IsZero() {
				delete(f.waiting, id)
			}
			return err
		}))
	}
	return errors.Join(errs...)
}

// changes returns what changed since the last poll. If the database was replaced by another one,
// it reopens the library.
func (f *follower) changes(ctx context.Context) (version int64, bases []string, err error) {
	version, bases, err = f.l.currentStore().Changes(ctx, f.since)
	if !errors.Is(err, store.ErrReplaced) {
		return version, bases, err
	}
	if err := f.l.Open(ctx, false); err != nil {
		return 0, nil, err
	}
	f.l.mu.Lock()
	for id := range f.l.bases {
		f.waiting[id] = true
	}
	f.l.mu.Unlock()
	f.since = -1
	return f.l.currentStore().Changes(ctx, f.since)
}
