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

// An obstacle holds the reason why a process cannot write its state folder, or cannot open it.
type obstacle struct{ err atomic.Pointer[error] }

func (o *obstacle) set(err error) { o.err.Store(&err) }

// why returns the reason, or nil if there is none.
func (o *obstacle) why() error {
	if err := o.err.Load(); err != nil {
		return *err
	}
	return nil
}

// locked reports whether another process writes the folder.
func (o *obstacle) locked() bool {
	var locked *store.LockedError
	return errors.As(o.why(), &locked)
}

// improve opens the state folder for writing if that is allowed and possible, else for reading,
// and reports whether the access changed. It leaves an access that cannot get better as it is.
func (s *stateFolder) improve(ctx context.Context) (changed bool) {
	before := s.library.Standing()
	if before == library.Writing || before == library.Following && s.cfg.Load().State.Follow {
		return false
	}
	if before == library.Following && !s.obstacle.locked() {
		s.leave(ctx) // reopen: SQLite never writes a database that was opened while its disk was read-only
	}
	var err error
	if !s.cfg.Load().State.Follow {
		err = s.library.Open(ctx, true)
	}
	if s.library.Standing() == library.NotOpen {
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
		s.monitor.Log(slog.LevelWarn, "state: "+err.Error())
	}
}

// repaired reports whether the damaged database that this process writes was replaced: moved away,
// or restored from a backup.
func (s *stateFolder) repaired(ctx context.Context) bool {
	return s.library.Standing() == library.Writing && len(s.library.BasesWithErrors()) > 0 && s.library.Replaced(ctx)
}

// LockEvery is the interval at which a process waiting for the state folder tries to open it.
const LockEvery = 300 * time.Millisecond

// openEvery is the longest interval between attempts to open a state folder that is unusable but
// not locked.
const openEvery = 10 * time.Second

// awaitChange returns when the access to the state folder has changed, or when a damaged folder
// was replaced and should be loaded again.
func (s *stateFolder) awaitChange(ctx context.Context) {
	for wait := LockEvery; Pause(ctx, wait) == nil && !s.repaired(ctx) && !s.improve(ctx); {
		if s.obstacle.locked() {
			continue
		}
		wait = min(2*wait, openEvery)
		if line := s.problem(); line != "" {
			s.monitor.Log(slog.LevelWarn, line)
		}
	}
}

// Pause waits for d. It returns the error of ctx if that ends first.
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

// tellAccess logs whether this process writes the state folder, or why not.
func (s *stateFolder) tellAccess(first bool) {
	switch why := s.problem(); {
	case s.obstacle.locked() && s.library.Standing() == library.Following:
		s.monitor.Log(slog.LevelInfo, why)
	case why != "":
		s.monitor.Log(slog.LevelWarn, why)
	case !first:
		s.monitor.Log(slog.LevelInfo, "state: this process writes "+s.cfg.Load().State.Path+" now")
	}
}

// problem returns why the state folder cannot be written, or "".
func (s *stateFolder) problem() string {
	err := StateError(s.obstacle.why(), s.cfg.Load().State, true)
	switch {
	case err == nil:
		return ""
	case s.library.Standing() == library.Following && !s.obstacle.locked():
		return err.Error() + "; its documents are served, but no folder is read"
	}
	return err.Error()
}
