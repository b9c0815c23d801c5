package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/watch"
)

// A keeper keeps one base as its folder is.
type keeper struct {
	s      *stack
	folder knowledge.Folder

	turn sync.Mutex // held by the one that reads the folder

	mu     sync.Mutex // guards what follows
	queued bool       // somebody who asked for a reading waits for the turn
	ingest
}

// An ingest is how far the reading of a base has come, or what became of the last.
type ingest struct {
	runs     int // that have ended
	running  bool
	progress knowledge.Progress
	whole    bool             // one has ended well
	report   knowledge.Report // of the last of those
	err      error            // of the last
	began    time.Time
	took     time.Duration
}

// status returns the present state.
func (k *keeper) status() ingest {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ingest
}

// read makes the base hold what the folder does.
func (k *keeper) read(ctx context.Context, progress func(knowledge.Progress)) ingest {
	k.turn.Lock()
	defer k.turn.Unlock()
	k.mu.Lock()
	k.queued, k.running, k.began, k.progress = false, true, time.Now(), knowledge.Progress{Knowledge: k.folder.ID}
	k.mu.Unlock()
	report, err := k.s.kept.Sync(ctx, k.folder, func(p knowledge.Progress) {
		k.mu.Lock()
		k.progress = p
		k.mu.Unlock()
		if progress != nil {
			progress(p)
		}
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	first := k.runs == 0
	k.runs++
	k.running, k.err, k.took = false, err, time.Since(k.began)
	if err == nil {
		k.whole, k.report = true, report
		k.s.count(k.folder.ID, report, first)
	}
	return k.ingest
}

// ask has the folder read as it is now, and returns how many readings will have ended
// when it has been: one that begins only now, by whomever, will do.
func (k *keeper) ask() (run int) {
	k.mu.Lock()
	defer k.mu.Unlock()
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
		switch done := k.read(ctx, nil); {
		case done.err == nil:
			k.tell(done, false)
		case ctx.Err() == nil:
			k.s.tell(slog.LevelWarn, done.err.Error()+"; what was read before stays")
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
	return watch.Watch(ctx, k.folder.Path, options, func() {
		for failed := false; ; failed = true {
			done := k.read(ctx, nil)
			if ctx.Err() != nil {
				return
			}
			if done.err == nil {
				k.tell(done, failed)
				return
			}
			k.s.tell(slog.LevelWarn, done.err.Error()+"; what was read before stays")
			select {
			case <-time.After(retryEvery):
			case <-ctx.Done():
				return
			}
		}
	})
}

// tell says what changed, if anything did.
func (k *keeper) tell(done ingest, failed bool) {
	r := done.report
	var parts []string
	if r.Written > 0 {
		parts = append(parts, plural(r.Written, "document")+" new or changed")
	}
	if r.Removed > 0 {
		parts = append(parts, thousands(r.Removed)+" removed")
	}
	if failed && len(parts) == 0 {
		parts = append(parts, "can be read again")
	}
	if len(parts) > 0 {
		k.s.tell(slog.LevelInfo, fmt.Sprintf("knowledge %s: %s; now %s, %s (%.1f s)", k.folder.ID, strings.Join(parts, ", "),
			plural(r.Files, "file"), plural(r.Chunks, "chunk"), done.took.Seconds()))
	}
}

// count counts what was read. What is skipped is counted once, however often the
// folder is looked at.
func (s *stack) count(id string, report knowledge.Report, first bool) {
	s.metrics.Ingested(id, "indexed", report.Written, 0)
	if !first {
		return
	}
	skipped := map[knowledge.SkipKind]int{}
	for _, skip := range report.Skipped {
		skipped[skip.Kind]++
	}
	for kind, n := range skipped {
		s.metrics.Ingested(id, string(kind), n, 0)
	}
}

// watch keeps all bases as their folders are, until ctx ends.
func (s *stack) watch(ctx context.Context) error {
	if s.cfg.State.Follow {
		return s.kept.Follow(ctx)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.loadOthers(ctx); return nil })
	for _, name := range s.cfg.KnowledgeNames() {
		if k := s.keepers[string(name)]; k != nil {
			g.Go(func() error { return k.watch(ctx) })
		}
	}
	return g.Wait()
}

// newKeepers makes a keeper for each base that has a folder.
func (s *stack) newKeepers() {
	if s.kept == nil || s.cfg.State.Follow || !s.home.keep {
		return
	}
	for _, name := range s.cfg.KnowledgeNames() {
		if k := s.cfg.Knowledge[name]; k.Engine == config.EngineEmbedded && k.Path != "" {
			s.keepers[string(name)] = &keeper{s: s, folder: s.cfg.Folder(name)}
		}
	}
}
