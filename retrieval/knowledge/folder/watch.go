package folder

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// timing defines how closely a folder is watched.
type timing struct {
	quiet time.Duration // time without events before changed is called, so that a folder being copied is read once
	most  time.Duration // longest time that a change waits for quiet, so that a folder written all the time is followed too
	// poll is the interval of scans that do not depend on events. They find what other machines
	// write to network file systems, and changes in folders for which there were no watches left.
	// A scan may take a twentieth of the time.
	poll time.Duration
}

var usual = timing{quiet: 300 * time.Millisecond, most: 5 * time.Second, poll: 30 * time.Second}

// WalkTree walks the folder and returns a digest of the files that count. It calls enter with the
// slash-separated relative path of every folder that it depends on, before it reads that folder.
// It is never called concurrently.
type WalkTree func(ctx context.Context, enter func(dir string)) (digest uint64)

// Watch calls changed whenever something at path may have changed: once after the watches are set,
// so that no change between the caller's own scan and the watch is lost, and then after each
// change. Calls never overlap; all changes during a call lead to one more. changed returns true if
// walk would now enter other folders, which then happens soon.
//
// counts, if not nil, reports whether a file in the folders of walk counts, by absolute path.
// Events of other files are ignored. It is called from the goroutine of walk.
//
// path is a folder or a file. It need not exist, and may be replaced, or removed and created
// again. Links at or on the way to path are followed, and a change of their targets is noticed.
// walk decides what is followed below it. polling is called once if some changes can only be found
// by polling, with the reason.
//
// Watch returns nil when ctx ends, after a running call has returned.
func Watch(ctx context.Context, path string, walk WalkTree, counts func(path string) bool, polling func(why error), changed func() (again bool)) error {
	return watch(ctx, path, walk, counts, polling, changed, usual, openSystem)
}

// A notifier sends events of folders. Removing a folder that does not exist any more does no harm.
type notifier interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
}

// openFunc opens a notifier. Its channels are closed when it is closed.
type openFunc func() (notifier, <-chan fsnotify.Event, <-chan error, error)

func openSystem() (notifier, <-chan fsnotify.Event, <-chan error, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, nil, err
	}
	return w, w.Events, w.Errors, nil
}

func watch(ctx context.Context, path string, walk WalkTree, counts func(path string) bool, polling func(why error), changed func() (again bool), t timing, open openFunc) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	w := &watcher{path: path, walk: walk, ours: counts, polling: polling, seed: maphash.MakeSeed()}
	in := newInbox()
	if n, events, errs, err := open(); err != nil {
		w.tell(fmt.Errorf("watch %s: %w", path, err))
	} else {
		pumped := make(chan struct{})
		go func() { defer close(pumped); in.pump(events, errs) }()
		defer func() { _ = n.Close(); <-pumped }()
		w.notifier = n
	}
	f := follower{
		debounce: debounce{quiet: t.quiet, most: t.most},
		poll:     t.poll,
		wake:     in.wake,
		take:     func() (sure, maybe bool) { return w.handle(ctx, in.take()) },
		look:     func() uint64 { return w.look(ctx) },
		changed:  changed,
	}
	f.run(ctx)
	return nil
}

// A watcher maintains the watches and decides which events count. It must be used by one goroutine
// only.
type watcher struct {
	path     string
	walk     WalkTree
	ours     func(path string) bool // nil: all names count
	polling  func(why error)        // nil once it was called
	notifier notifier               // nil if the system provides none
	seed     maphash.Seed

	real string // the path with links resolved
	seen        // by the last look
	full bool   // no watches were left during this look
}

// seen is what a look found worth watching.
type seen struct {
	dirs  map[string]bool // watched folders; true: everything in them counts
	names map[string]bool // what counts in the others: links and their targets
}

// look scans everything and returns its digest. Every later change leads to an event, as far as
// the system provides any.
func (w *watcher) look(ctx context.Context) uint64 {
	w.full = false
	s := &scan{seen: seen{dirs: map[string]bool{}, names: map[string]bool{}}, w: w}
	s.hash.SetSeed(w.seed)
	s.run(ctx, w.path)
	if ctx.Err() != nil {
		return 0
	}
	for dir := range w.dirs {
		if _, still := s.dirs[dir]; !still {
			_ = w.notifier.Remove(dir)
		}
	}
	w.real, w.seen = s.real, s.seen
	return s.hash.Sum64()
}

// add watches a folder, and reports whether it exists. A watched folder is added again, because
// the folder of that name may have been replaced.
func (w *watcher) add(dir string) (watched, exists bool) {
	if w.notifier == nil || w.full {
		return false, true
	}
	err := w.notifier.Add(dir)
	switch {
	case err == nil:
		return true, true
	case errors.Is(err, fs.ErrNotExist):
		return false, false
	case errors.Is(err, fs.ErrPermission): // what cannot be watched cannot be read
		return false, true
	}
	w.full = true // do not try again before the next look
	w.tell(fmt.Errorf("watch %s: %w", dir, err))
	return false, true
}

// tell reports once why polling is needed.
func (w *watcher) tell(why error) {
	if w.polling != nil {
		w.polling(why)
		w.polling = nil
	}
}
