package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/audit"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/knowledge/folder"
)

// An indexer keeps one base in sync with its folder.
type indexer struct {
	folder  folder.Folder
	fetcher *Fetcher // nil unless the folder is a mirror
	library syncer
	tasks   *Tasks
	monitor Monitor

	requested sync.Mutex // held by a requested run, from its fetch to its end
	reading   sync.Mutex // held by a run while it reads the folder

	mu       sync.Mutex // guards the following
	queued   bool       // a requested run has not begun
	accept   bool       // the requested run accepts deletions, see Folder.AcceptDeletions
	counting bool       // a run has begun that will be counted
	stopped  bool       // no requested run begins any more
	cancel   func()     // ends the requested run
	indexing
}

// An indexing is the progress of the current run and the result of the last one.
type indexing struct {
	runs     int // finished runs, except those that began while a requested run was due
	running  bool
	progress folder.Progress
	whole    bool             // a run has succeeded
	report   folder.Report    // of the last run that succeeded
	vectors  engine.Embedding // of the last run that succeeded, in an engine
	err      error            // of the last run
	began    time.Time
	took     time.Duration
}

// status returns a copy of the current state.
func (x *indexer) status() indexing {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.indexing
}

// A syncer makes a base the same as a folder: a library, or the writer of a base in an engine.
type syncer interface {
	Sync(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error)
	Update(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error)
	Look(ctx context.Context, f folder.Folder, enter func(dir string)) (digest uint64)
}

// A syncFunc is the method Sync or Update of a library.
type syncFunc func(ctx context.Context, folder folder.Folder, progress func(folder.Progress)) (folder.Report, error)

// read makes one run: it updates the base from the folder. The run is counted unless a requested one
// is due, which alone is known to read the folder as it was when it was requested.
func (x *indexer) read(ctx context.Context, sync syncFunc) indexing {
	x.reading.Lock()
	defer x.reading.Unlock()
	x.mu.Lock()
	counts := !x.queued && !x.counting
	x.counting = x.counting || counts
	x.mu.Unlock()
	return x.readFolder(ctx, x.folder, sync, counts)
}

// readFolder is read, holding reading, of a folder with other settings.
func (x *indexer) readFolder(ctx context.Context, f folder.Folder, sync syncFunc, counts bool) indexing {
	x.mu.Lock()
	x.running, x.began, x.progress = true, time.Now(), folder.Progress{Knowledge: f.ID}
	x.mu.Unlock()
	if x.fetcher != nil {
		f, sync = x.mirrored(f, sync)
	}
	report, err := sync(ctx, f, func(p folder.Progress) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.progress = p
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	first := !x.whole
	if counts {
		x.runs++
		x.counting = false
	}
	x.running, x.err, x.took = false, err, time.Since(x.began)
	if err == nil {
		x.whole, x.report = true, report
		x.monitor.Indexed(x.folder.ID, report, first)
		x.noteVectors()
	}
	return x.indexing
}

// mirrored returns the folder of a mirror, and what syncs it.
func (x *indexer) mirrored(f folder.Folder, sync syncFunc) (folder.Folder, syncFunc) {
	f, err := x.fetcher.Folder(f)
	if err == nil {
		return f, sync
	}
	return f, func(context.Context, folder.Folder, func(folder.Progress)) (folder.Report, error) {
		return folder.Report{}, err
	}
}

// waitsForFetch reports whether there is nothing to read yet.
func (x *indexer) waitsForFetch() bool { return x.fetcher != nil && !x.fetcher.Started() }

// ask requests a run that fetches what is new and reads the folder as it is now, and returns the
// value that the counter of finished runs will have after it. If such a run has not begun, none is
// added.
func (x *indexer) ask(acceptDeletions bool) (run int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.accept = x.accept || acceptDeletions
	run = x.runs + 1
	if x.counting {
		run++
	}
	if !x.queued {
		x.queued = true
		x.tasks.Start(func(ctx context.Context) {
			if done, whole := x.runRequested(ctx); whole {
				x.tell(done, false)
			}
		})
	}
	return run
}

// runRequested makes the requested run, and reports whether nothing stopped it. Its error is that of
// the fetch if reading has none.
func (x *indexer) runRequested(ctx context.Context) (done indexing, whole bool) {
	x.requested.Lock()
	defer x.requested.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f, ok := x.begin(ctx, cancel)
	if !ok {
		return done, false
	}
	sync := x.library.Sync
	if x.fetcher != nil {
		fetched := x.fetcher.Fetch(ctx, nil)
		sync = func(ctx context.Context, f folder.Folder, progress func(folder.Progress)) (folder.Report, error) {
			if fetched != nil && !x.fetcher.Started() {
				return folder.Report{}, fetched
			}
			report, err := x.library.Sync(ctx, f, progress)
			return report, cmp.Or(err, fetched)
		}
	}
	x.reading.Lock()
	defer x.reading.Unlock()
	done = x.readFolder(ctx, f, sync, true)
	return done, ctx.Err() == nil
}

// begin begins the requested run once the folder is not being read, and returns the folder. Later
// requests lead to another run. If none begins any more ok is false, and the run counts as stopped.
func (x *indexer) begin(ctx context.Context, cancel func()) (f folder.Folder, ok bool) {
	x.reading.Lock()
	defer x.reading.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	f = x.folder
	f.AcceptDeletions = f.AcceptDeletions || x.accept
	x.queued, x.accept = false, false
	if x.stopped || ctx.Err() != nil {
		x.runs++
		x.err = context.Canceled
		return f, false
	}
	x.counting, x.cancel = true, cancel
	return f, true
}

// endRequests makes requested runs end with ctx, so that nothing that stops waits for one. It returns
// a function that undoes that.
func (x *indexer) endRequests(ctx context.Context) (undo func() bool) {
	x.mu.Lock()
	x.stopped = false
	x.mu.Unlock()
	return context.AfterFunc(ctx, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.stopped = true; x.cancel != nil {
			x.cancel()
		}
	})
}

// retryEvery is the time after which a folder that could not be read is tried again.
const retryEvery = 10 * time.Second

// watch reads the folder whenever something in it may have changed, until ctx ends. Changes during
// a run lead to another run.
func (x *indexer) watch(ctx context.Context) error {
	watched, err := x.opened(ctx)
	if err != nil {
		return err
	}
	walk := func(ctx context.Context, enter func(dir string)) uint64 { return x.library.Look(ctx, watched, enter) }
	polling := func(why error) {
		x.monitor.Log(slog.LevelWarn, fmt.Sprintf("knowledge %s: changes are seen late, by looking now and then: %v", x.folder.ID, why))
	}
	changed := make(chan struct{}, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { x.follow(ctx, changed); return nil })
	g.Go(func() error {
		return folder.Watch(ctx, watched.Path, walk, nil, polling, func() (again bool) { wake(changed); return false })
	})
	if x.fetcher != nil {
		g.Go(func() error { x.fetcher.run(ctx, func() { wake(changed) }); return nil })
	}
	return g.Wait()
}

// opened returns the folder with the files; a mirror that cannot be opened is tried again until ctx ends.
func (x *indexer) opened(ctx context.Context) (folder.Folder, error) {
	if x.fetcher == nil {
		return x.folder, nil
	}
	for failed := false; ; failed = true {
		f, err := x.fetcher.Folder(x.folder)
		if err == nil {
			return f, nil
		}
		if !failed {
			x.tell(x.read(ctx, x.library.Update), false) // with the same error
		}
		if err := Pause(ctx, retryEvery); err != nil {
			return f, err
		}
	}
}

// wake signals a change unless a run is pending already.
func wake(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// follow reads the folder after each change, and retries after a failure.
func (x *indexer) follow(ctx context.Context, changed <-chan struct{}) {
	pause := time.Duration(0)
	for {
		last := x.status()
		failed := last.err != nil
		var again <-chan time.Time
		if pause = last.retryIn(pause); pause > 0 {
			again = time.After(pause)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
		if x.fetcher != nil && !x.fetcher.readable() {
			continue
		}
		if done := x.read(ctx, x.library.Update); ctx.Err() == nil {
			x.auditChanges(done)
			x.tell(done, failed)
		}
	}
}

// auditChanges records that a run that nobody asked for has changed the base.
func (x *indexer) auditChanges(done indexing) {
	if r := &done.report; done.err == nil && r.Written+r.Removed > 0 {
		x.monitor.Audit.Record(audit.Event{Action: audit.Ingest, Object: x.folder.ID, Result: audit.OK, By: "its folder"})
	}
}

// problem returns what went wrong in the last run, or "". A run that was cancelled at shutdown is
// not a problem, nor is that another process writes the base.
func (i indexing) problem() string {
	if i.err == nil || errors.Is(i.err, context.Canceled) || errors.Is(i.err, engine.ErrLeaseTaken) {
		return ""
	}
	return WithRemedy(i.err).Error()
}

// WithRemedy adds to the error of a run what happens to the base, and what to do.
func WithRemedy(err error) error {
	if gone := (*folder.GoneError)(nil); errors.As(err, &gone) {
		return fmt.Errorf("%w; the base stays as it was until they are back, sidenote ingest --accept-deletions, or deletions: accept in its configuration", err)
	}
	switch {
	case errors.Is(err, engine.ErrNoBase):
		return fmt.Errorf("%w; `sidenote knowledge init` creates it", err)
	case errors.Is(err, engine.ErrSchema):
		return fmt.Errorf("%w; `sidenote knowledge init` brings an older one up to date", err)
	}
	return fmt.Errorf("%w; what was read before stays", err)
}

// tell logs what a run changed, if anything, or what went wrong. failed says whether the previous
// run failed.
func (x *indexer) tell(done indexing, failed bool) {
	if why := done.problem(); why != "" {
		x.monitor.Log(slog.LevelWarn, why)
		return
	}
	if done.err != nil {
		if !failed {
			x.monitor.Log(slog.LevelInfo, done.err.Error()+"; this process takes over when that one ends")
		}
		return
	}
	r := done.report
	var parts []string
	if r.Written > 0 {
		parts = append(parts, terminal.Plural(r.Written, "document")+" new or changed")
	}
	if r.Removed > 0 {
		parts = append(parts, terminal.Thousands(r.Removed)+" removed")
	}
	if failed && len(parts) == 0 {
		parts = append(parts, "can be read again")
	}
	if len(parts) > 0 {
		x.monitor.Log(slog.LevelInfo, fmt.Sprintf("knowledge %s: %s; now %s, %s (%.1f s)", x.folder.ID, strings.Join(parts, ", "),
			terminal.Plural(r.Files, "file"), terminal.Plural(r.Chunks, "chunk"), done.took.Seconds()))
	}
}
