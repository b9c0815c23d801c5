package library

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sidenote/retrieval/knowledge/store"
)

const (
	// followEvery is how often a follower asks for what is new.
	followEvery = time.Second
	// followSoon is how often it asks while a base has documents in no segment, as
	// between two writes of its writer, or its folder is being read.
	followSoon = followEvery / 4
	// followPatience is for how long a follower leaves such a base to the writer, which
	// has it whole within a moment unless it is busy or has died.
	followPatience = 4 * time.Second
)

// Follow lets the bases of a library that is open for reading answer from what its
// writer does, until ctx ends: a change that is whole is seen within two seconds. A
// search never sees a part of one. What goes wrong is reported as Trouble and tried
// again.
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

// A follower is what Follow knows between two polls.
type follower struct {
	l       *Library
	since   int64           // version of the store up to which all is seen; -1 before the first
	waiting map[string]bool // bases to look at again, even if nothing changes
}

// poll takes over what changed since the last.
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

// changes returns what changed since the last poll, also where another database took
// the place of the one that was open.
func (f *follower) changes(ctx context.Context) (version int64, bases []string, err error) {
	version, bases, err = f.l.truth().Changes(ctx, f.since)
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
	return f.l.truth().Changes(ctx, f.since)
}
