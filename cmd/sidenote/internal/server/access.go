package server

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// An obstacle is why a process cannot write its state folder, or cannot open it.
type obstacle struct{ err atomic.Pointer[error] }

func (o *obstacle) set(err error) { o.err.Store(&err) }

// why is nil where there is none.
func (o *obstacle) why() error {
	if err := o.err.Load(); err != nil {
		return *err
	}
	return nil
}

// locked tells whether another process writes the folder.
func (o *obstacle) locked() bool {
	var locked *store.LockedError
	return errors.As(o.why(), &locked)
}

// improve opens the state folder for writing where that is allowed and possible, else for
// reading, and tells whether the access changed. An access that cannot get better is left
// as it is.
func (s *stateFolder) improve(ctx context.Context) (changed bool) {
	before := s.library.Standing()
	if before == library.Writing || before == library.Following && s.cfg.Load().State.Follow {
		return false
	}
	if before == library.Following && !s.obstacle.locked() {
		s.leave(ctx) // SQLite writes nothing that the process has open on a disk that took no writes
	}
	var err error
	if !s.cfg.Load().State.Follow {
		err = s.library.Open(ctx, true)
	}
	if s.library.Standing() == library.Apart {
		reading := s.library.Open(ctx, false)
		if err == nil {
			err = reading
		}
	}
	s.obstacle.set(err)
	return s.library.Standing() != before
}

// leave closes the state folder until improve opens it again.
func (s *stateFolder) leave(ctx context.Context) {
	if err := s.library.Leave(ctx); err != nil {
		s.monitor.Tell(slog.LevelWarn, "state: "+err.Error())
	}
}

// repaired tells whether somebody put a damaged database right that this process writes, by
// moving it away or bringing back a backup.
func (s *stateFolder) repaired(ctx context.Context) bool {
	return s.library.Standing() == library.Writing && len(s.library.Troubled()) > 0 && s.library.Replaced(ctx)
}

// LockEvery is how often a process that waits for the state folder tries to open it.
const LockEvery = 300 * time.Millisecond

// openEvery is the longest time between two attempts to open a state folder that is not
// locked and cannot be used.
const openEvery = 10 * time.Second

// awaitChange returns when the access to the state folder has changed, or when the folder
// should be opened anew.
func (s *stateFolder) awaitChange(ctx context.Context) {
	for wait := LockEvery; Pause(ctx, wait) == nil && !s.repaired(ctx) && !s.improve(ctx); {
		if s.obstacle.locked() {
			continue
		}
		wait = min(2*wait, openEvery)
		if line := s.problem(); line != "" {
			s.monitor.Tell(slog.LevelWarn, line)
		}
	}
}

// Pause waits, unless ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tellAccess says whether this process writes the state folder, or why not.
func (s *stateFolder) tellAccess(first bool) {
	switch why := s.problem(); {
	case s.obstacle.locked() && s.library.Standing() == library.Following:
		s.monitor.Tell(slog.LevelInfo, why)
	case why != "":
		s.monitor.Tell(slog.LevelWarn, why)
	case !first:
		s.monitor.Tell(slog.LevelInfo, "state: this process writes "+s.cfg.Load().State.Path+" now")
	}
}

// problem says why the state folder cannot be written; "" where it can.
func (s *stateFolder) problem() string {
	err := StateError(s.obstacle.why(), s.cfg.Load().State, true)
	switch {
	case err == nil:
		return ""
	case s.library.Standing() == library.Following && !s.obstacle.locked():
		return err.Error() + "; what it holds is answered from, and no folder is read"
	}
	return err.Error()
}
