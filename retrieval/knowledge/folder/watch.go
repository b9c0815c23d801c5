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

// timing is how closely something is watched.
type timing struct {
	quiet time.Duration // without events before changed is called, so that a folder which is being copied is read once
	most  time.Duration // that a change waits for quiet, so that a folder which is written all the time is followed too
	// poll is the time between looks at everything, whatever the system tells of. It finds
	// what is written to network file systems from elsewhere, and what there were no watches
	// left for. A look may take a twentieth of the time.
	poll time.Duration
}

var usual = timing{quiet: 300 * time.Millisecond, most: 5 * time.Second, poll: 30 * time.Second}

// A WalkTree goes through the folder as its reader does and returns a digest of what counts. It
// tells enter, before it reads them, of all folders that this depends on, by their
// slash-separated paths below the folder. It is called from one goroutine at a time.
type WalkTree func(ctx context.Context, enter func(dir string)) (digest uint64)

// Watch calls changed whenever something at path may have changed: once as soon
// as it watches, so that nothing is lost between a scan that the caller made and
// the watch, and then after each change. Calls never overlap: all that happens
// during one leads to one more. It returns whether walk has other folders to enter now,
// which is then done soon.
//
// counts, if not nil, reports whether a name in the folders of walk counts, by absolute path.
// Events of other names are no change and delay none. It is called from the goroutine of walk.
//
// path is a folder with all that is below it, or a file. It need not be there, and
// may be replaced or removed and come back. If it is a link, or there are links on
// the way to it, they are followed, and noticed when they are turned. What is below it is
// up to walk. polling is told once why some changes are found by looking only.
//
// Watch returns nil when ctx ends, after a call that is running has returned.
func Watch(ctx context.Context, path string, walk WalkTree, counts func(path string) bool, polling func(why error), changed func() (again bool)) error {
	return watch(ctx, path, walk, counts, polling, changed, usual, openSystem)
}

// A notifier tells of what happens in folders. Remove of one that is not there
// any more does no harm.
type notifier interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
}

// openFunc opens a notifier, which closes the channels when it is closed.
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

// A watcher keeps the watches where things are, and knows which events count.
// It belongs to one goroutine.
type watcher struct {
	path     string
	walk     WalkTree
	ours     func(path string) bool // nil: all names count
	polling  func(why error)        // nil once it was told
	notifier notifier               // nil: the system gives none
	seed     maphash.Seed

	real string // where path leads
	seen        // by the last look
	full bool   // there are no watches left, for this look
}

// seen is what a look found worth watching.
type seen struct {
	dirs  map[string]bool // folders that are watched; true: all that is in them counts
	names map[string]bool // what counts in the other ones: links, and where they lead
}

// look goes through everything and returns its digest. Whatever happens after it
// leads to an event, as far as the system gives any.
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

// add watches a folder, and tells whether it is there. One that is watched already
// is added again: another one may stand under its name by now.
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
	w.full = true // one refusal is enough: the next look asks again
	w.tell(fmt.Errorf("watch %s: %w", dir, err))
	return false, true
}

// tell says, once, why polling is needed.
func (w *watcher) tell(why error) {
	if w.polling != nil {
		w.polling(why)
		w.polling = nil
	}
}
