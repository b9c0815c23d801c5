package folder

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// A batch is what happened since the last one, by name. lost says that events were lost.
type batch struct {
	ops  map[string]fsnotify.Op
	lost bool
}

// maxBatch bounds the names of a batch; beyond, everything is looked at anew.
const maxBatch = 1 << 16

// An inbox collects events while others are handled: the queue of the system is short, and
// fsnotify holds its lock while it reports an error, so that nobody could add a watch
// until somebody receives it.
type inbox struct {
	wake chan struct{} // holds something while there is something

	mu   sync.Mutex
	next batch
}

func newInbox() *inbox {
	return &inbox{wake: make(chan struct{}, 1), next: batch{ops: map[string]fsnotify.Op{}}}
}

// pump returns when the channels are closed.
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
			in.lose() // the queue was full, or worse
		}
	}
}

func (in *inbox) put(e fsnotify.Event) {
	name := filepath.Clean(e.Name) // a name in / comes with two slashes
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

// handle tells whether a batch surely has a change, or maybe has one, so that the digest
// must decide. The order within a batch is lost: the watches of removed folders are dropped
// first, then those of new folders are added.
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

// counts judges one event; inTree: it is in a folder of which everything counts.
func (w *watcher) counts(ctx context.Context, name string, op fsnotify.Op, inTree bool) (sure, maybe bool) {
	written := op.Has(fsnotify.Create) || op.Has(fsnotify.Write)
	if w.names[name] {
		return written, !written
	}
	if !inTree || w.ours != nil && !w.ours(name) {
		return false, false
	}
	info, err := os.Lstat(name)
	if !written || err != nil { // it may be gone, so nothing tells what it was
		return false, true
	}
	if info.IsDir() {
		w.addTree(ctx, name)
	}
	return true, false
}

// addTree watches a new folder and those in it, so that what is still being written there
// counts. The walk, which comes when it is quiet, decides which of them stay watched.
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

// forget drops the watches of folders that are gone and of all folders below them; nil
// stands for all folders. The next look adds those that are still needed. This is needed
// because a renamed folder keeps its watch under the old name. It returns the folders as
// they were.
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

// under tells whether dir or a folder that it is in is one of dirs.
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
