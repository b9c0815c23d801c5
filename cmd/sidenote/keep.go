package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/console"
	"sidenote/proxy/panics"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/folder/watch"
)

// A keeper keeps one base as its folder is.
type keeper struct {
	s      *stack
	folder folder.Folder

	turn sync.Mutex // held by the one that reads the folder

	mu     sync.Mutex // guards what follows
	queued bool       // somebody who asked for a reading waits for the turn
	accept bool       // the next reading lets documents go, see Folder.AcceptDeletions
	ingest
}

// An ingest is how far the reading of a base has come, or what became of the last.
type ingest struct {
	runs     int // that have ended
	running  bool
	progress folder.Progress
	whole    bool          // one has ended well
	report   folder.Report // of the last of those
	err      error         // of the last
	began    time.Time
	took     time.Duration
}

// status returns the present state.
func (k *keeper) status() ingest {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ingest
}

// A syncFunc is Sync or Update of a library.
type syncFunc func(ctx context.Context, folder folder.Folder, progress func(folder.Progress)) (folder.Report, error)

// read makes the base hold what the folder does.
func (k *keeper) read(ctx context.Context, sync syncFunc) ingest {
	k.turn.Lock()
	defer k.turn.Unlock()
	f := k.begin()
	report, err := sync(ctx, f, func(p folder.Progress) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.progress = p
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	first := !k.whole
	k.runs++
	k.running, k.err, k.took = false, err, time.Since(k.began)
	if err == nil {
		k.whole, k.report = true, report
		k.s.count(k.folder.ID, report, first)
	}
	return k.ingest
}

// begin notes that a reading begins, and returns what is read.
func (k *keeper) begin() folder.Folder {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.folder
	f.AcceptDeletions = f.AcceptDeletions || k.accept
	k.queued, k.accept, k.running, k.began, k.progress = false, false, true, time.Now(), folder.Progress{Knowledge: f.ID}
	return f
}

// ask has the folder read as it is now, and returns how many readings will have ended
// when it has been: one that begins only now, by whomever, will do.
func (k *keeper) ask(acceptDeletions bool) (run int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.accept = k.accept || acceptDeletions
	run = k.runs + 1
	if k.running {
		run++
	}
	if k.queued {
		return run
	}
	k.queued = true
	k.s.inBackground(func(ctx context.Context) {
		k.turn.Lock()
		k.mu.Lock()
		waits := k.queued
		k.mu.Unlock()
		k.turn.Unlock()
		if !waits || ctx.Err() != nil {
			return // it was read while this waited
		}
		if done := k.read(ctx, k.s.kept.Sync); ctx.Err() == nil {
			k.tell(done, false)
		}
	})
	return run
}

// retryEvery is how long a folder that could not be read is left alone.
const retryEvery = 10 * time.Second

// watch reads the folder whenever something in it may have changed, until ctx ends.
// What changes while it is being read is read after that.
func (k *keeper) watch(ctx context.Context) error {
	options := watch.Options{Polling: func(why error) {
		k.s.tell(slog.LevelWarn, fmt.Sprintf("knowledge %s: changes are seen late, by looking now and then: %v", k.folder.ID, why))
	}}
	changed := make(chan struct{}, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { k.follow(ctx, changed); return nil })
	g.Go(func() error {
		return watch.Watch(ctx, k.folder.Path, options, func() {
			select {
			case changed <- struct{}{}:
			default: // it is about to be read
			}
		})
	})
	return g.Wait()
}

// follow reads the folder after each change, and now and then where it could not be
// read.
func (k *keeper) follow(ctx context.Context, changed <-chan struct{}) {
	for {
		failed := k.status().err != nil
		var again <-chan time.Time
		if failed {
			again = time.After(retryEvery)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
		if done := k.read(ctx, k.s.kept.Update); ctx.Err() == nil {
			k.tell(done, failed)
		}
	}
}

// trouble says what is wrong with the last reading; "" if nothing is, or if it was ended
// because the process ends.
func (i ingest) trouble() string {
	if i.err == nil || errors.Is(i.err, context.Canceled) {
		return ""
	}
	return withRemedy(i.err).Error()
}

// withRemedy adds to the error of a reading what becomes of the base, and what to do.
func withRemedy(err error) error {
	if gone := (*knowledge.GoneError)(nil); errors.As(err, &gone) {
		return fmt.Errorf("%w; the base stays as it was until they are back, sidenote ingest --accept-deletions, or deletions: accept in its configuration", err)
	}
	return fmt.Errorf("%w; what was read before stays", err)
}

// tell says what changed, if anything did, or what went wrong.
func (k *keeper) tell(done ingest, failed bool) {
	if why := done.trouble(); why != "" {
		k.s.tell(slog.LevelWarn, why)
		return
	}
	r := done.report
	var parts []string
	if r.Written > 0 {
		parts = append(parts, console.Plural(r.Written, "document")+" new or changed")
	}
	if r.Removed > 0 {
		parts = append(parts, console.Thousands(r.Removed)+" removed")
	}
	if failed && len(parts) == 0 {
		parts = append(parts, "can be read again")
	}
	if len(parts) > 0 {
		k.s.tell(slog.LevelInfo, fmt.Sprintf("knowledge %s: %s; now %s, %s (%.1f s)", k.folder.ID, strings.Join(parts, ", "),
			console.Plural(r.Files, "file"), console.Plural(r.Chunks, "chunk"), done.took.Seconds()))
	}
}

// count counts what was read. What is skipped is counted once, however often the
// folder is looked at.
func (s *stack) count(id string, report folder.Report, first bool) {
	s.metrics.Ingested(id, "indexed", report.Written, 0)
	if !first {
		return
	}
	skipped := map[folder.SkipKind]int{}
	for _, skip := range report.Skipped {
		skipped[skip.Kind]++
	}
	for kind, n := range skipped {
		s.metrics.Ingested(id, string(kind), n, 0)
	}
}

// watch keeps all bases as their folders are, or as the process has them that writes the
// state folder, until ctx ends.
func (s *stack) watch(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	watched := func(watch func(context.Context) error) {
		all.Go(func() {
			defer panics.Recover(s.panicked, nil) // the base stays as it is
			if err := watch(ctx); err != nil && ctx.Err() == nil {
				s.tell(slog.LevelWarn, err.Error())
			}
		})
	}
	switch s.kept.Standing() {
	case knowledge.Following:
		watched(s.kept.Follow)
	case knowledge.Writing:
		watched(s.loadOthers)
		for _, k := range s.keepers {
			watched(k.watch)
		}
	}
}

// newKeepers makes a keeper for each base that has a folder.
func (s *stack) newKeepers() {
	if s.cfg.State.Follow || !s.home.keep {
		return
	}
	for _, name := range s.cfg.KnowledgeNames() {
		if k := s.cfg.Knowledge[name]; k.Engine == config.EngineEmbedded && k.Path != "" {
			s.keepers[string(name)] = &keeper{s: s, folder: s.cfg.Folder(name)}
		}
	}
}
