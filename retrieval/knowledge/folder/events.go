package folder

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// A batch is the events since the previous batch, by name. lost means that events were lost.
type batch struct {
	ops  map[string]fsnotify.Op
	lost bool
}

// maxBatch is the most names in a batch; if there are more, everything is scanned again.
const maxBatch = 1 << 16

// An inbox collects events while others are handled. The queue of the system is short, and
// fsnotify holds its lock while it reports an error, which blocks adding watches until the error
// is received.
type inbox struct {
	wake chan struct{} // not empty if next is not empty

	mu   sync.Mutex
	next batch
}

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), next: batch{ops: map[string]fsnotify.Op{}}}
}

// pump returns when both channels are closed.
func (in *inbox) pump(events <-chan fsnotify.Event, errs <-chan error) {
	for events != nil || errs != nil {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			in.put(e)
		case _, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			in.lose() // for example, the queue was full
		}
	}
}

func (in *inbox) put(e fsnotify.Event) {
	name := filepath.Clean(e.Name) // in the root folder, names start with two slashes
	in.mu.Lock()
	if in.next.ops[name] |= e.Op; len(in.next.ops) > maxBatch {
		in.next = batch{ops: map[string]fsnotify.Op{}, lost: true}
	}
	in.mu.Unlock()
	in.ring()
}

func (in *inbox) lose() {
	in.mu.Lock()
	in.next.lost = true
	in.mu.Unlock()
	in.ring()
}

func (in *inbox) ring() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *inbox) take() batch {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := in.next
	in.next = batch{ops: map[string]fsnotify.Op{}}
	return b
}

// handle reports whether a batch certainly contains a change, or may contain one, so that the
// digest must decide. The order of events in a batch is not known: first the watches of removed
// folders are dropped, then those of new folders are added.
func (w *watcher) handle(ctx context.Context, b batch) (sure, maybe bool) {
	if b.lost {
		w.forget(nil)
		sure = true
	}
	gone := map[string]bool{}
	for name, op := range b.ops {
		if _, ours := w.dirs[name]; ours {
			maybe = true
			if op.Has(fsnotify.Remove) || op.Has(fsnotify.Rename) {
				gone[name] = true
			}
		}
	}
	all := w.seen.dirs
	if len(gone) > 0 {
		all = w.forget(gone)
	}
	for name, op := range b.ops {
		certain, doubtful := w.counts(ctx, name, op, all[filepath.Dir(name)])
		sure, maybe = sure || certain, maybe || doubtful
	}
	return sure, maybe
}

// counts does the same for one event. inTree means that everything in the folder counts.
func (w *watcher) counts(ctx context.Context, name string, op fsnotify.Op, inTree bool) (sure, maybe bool) {
	written := op.Has(fsnotify.Create) || op.Has(fsnotify.Write)
	if w.names[name] {
		return written, !written
	}
	if !inTree || w.ours != nil && !w.ours(name) {
		return false, false
	}
	info, err := os.Lstat(name)
	if !written || err != nil { // it may be gone, so its kind is unknown
		return false, true
	}
	if info.IsDir() {
		w.addTree(ctx, name)
	}
	return true, false
}

// addTree watches a new folder and its subfolders, so that files still being written there count.
// The next walk, which runs when the folder is quiet, decides which of them stay watched.
func (w *watcher) addTree(ctx context.Context, top string) {
	_ = filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			if watched, _ := w.add(dir); watched {
				w.dirs[dir] = true
			}
		}
		return ctx.Err()
	})
}

// forget drops the watches of folders that are gone and of all folders below them, or of all
// folders if gone is nil. The next look adds those that are still needed. This is necessary
// because a renamed folder keeps its watch under the old name. It returns the previous folders.
func (w *watcher) forget(gone map[string]bool) (before map[string]bool) {
	before = w.dirs
	kept := make(map[string]bool, len(before))
	for dir, tree := range before {
		if gone == nil || under(gone, dir) {
			_ = w.notifier.Remove(dir)
		} else {
			kept[dir] = tree
		}
	}
	w.dirs = kept
	return before
}

// under reports whether dir or one of its parents is in dirs.
func under(dirs map[string]bool, dir string) bool {
	for !dirs[dir] {
		up := filepath.Dir(dir)
		if up == dir {
			return false
		}
		dir = up
	}
	return true
}
