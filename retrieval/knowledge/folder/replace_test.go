package folder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// kubelet writes a ConfigMap's next version into dir as its AtomicWriter does.
func kubelet(t *testing.T, dir string, version int, files map[string]string) {
	t.Helper()
	data := filepath.Join(dir, "..data")
	old, _ := os.Readlink(data)
	stamp := fmt.Sprintf("..2026_11_21_10_00_%02d.%d", version, 1000+version)
	must(t, os.Mkdir(filepath.Join(dir, stamp), 0o755))
	for name, text := range files {
		put(t, text, dir, stamp, name)
	}
	must(t, os.Symlink(stamp, data+"_tmp"), os.Rename(data+"_tmp", data))
	for name := range files {
		if link := filepath.Join(dir, name); !exists(link) {
			must(t, os.Symlink(filepath.Join("..data", name), link))
		}
	}
	if old != "" {
		must(t, os.RemoveAll(filepath.Join(dir, old)))
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestConfigMap(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"", "guide.md"} {
		t.Run(part, func(t *testing.T) {
			dir := t.TempDir()
			kubelet(t, dir, 0, map[string]string{"guide.md": "version 0"})
			s := see(t, filepath.Join(dir, part), quick, openSystem)
			for version := 1; version < 4; version++ {
				kubelet(t, dir, version, map[string]string{"guide.md": fmt.Sprintf("version %d", version)})
				s.current()
				s.settle()
			}
			put(t, "version X", dir, "..data", "guide.md") // which kubelet never does
			s.current()
			if part == "" {
				kubelet(t, dir, 4, map[string]string{"guide.md": "version 4", "more.md": "a new key"})
				s.current()
			}
		})
	}
}

func TestFolderReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "up", "docs")
	put(t, "1", dir, "a.md")
	s := see(t, dir, quick, openSystem)
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"removed", func() { must(t, os.RemoveAll(dir)) }},
		{"made anew", func() { put(t, "2", dir, "a.md") }},
		{"written", func() { put(t, "3", dir, "a.md") }},
		{"removed with its parent", func() { must(t, os.RemoveAll(filepath.Dir(dir))) }},
		{"made anew with it", func() { put(t, "4", dir, "sub", "a.md") }},
		{"written again", func() { put(t, "5", dir, "sub", "a.md") }},
		{"exchanged", func() {
			put(t, "6", dir+".new", "sub", "b.md")
			must(t, os.Rename(dir, dir+".old"), os.Rename(dir+".new", dir))
		}},
		{"written in the new one", func() { put(t, "7", dir, "sub", "b.md") }},
		{"a file in its place", func() { must(t, os.RemoveAll(dir)); put(t, "8", dir) }},
		{"a folder again", func() { must(t, os.Remove(dir)); put(t, "9", dir, "a.md") }},
	} {
		t.Log(step.name)
		step.do()
		s.current()
		s.settle()
	}
	put(t, "old", dir+".old", "sub", "a.md") // no longer watched
	s.silent()
}

// A path that does not exist yet is waited for, and so are its parents.
func TestFolderComesLate(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "docs")
	s := see(t, dir, quick, openSystem)
	put(t, "noise", top, "other")
	s.silent()
	must(t, os.Mkdir(filepath.Join(top, "a"), 0o755))
	s.settle()
	put(t, "1", dir, "a.md")
	s.current()
	put(t, "2", dir, "a.md")
	s.current()
}

func TestFileReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "guide.md")
	put(t, "0", file)
	s := see(t, file, quick, openSystem)
	put(t, "1", file)
	s.current()
	for n := range 3 { // like editors save
		put(t, fmt.Sprint("saved ", n), dir, "guide.md~")
		must(t, os.Rename(filepath.Join(dir, "guide.md~"), file))
		s.current()
	}
	s.settle()
	put(t, "2", dir, "other.md")
	s.silent()
	putUnseen(t, "saved 3", file)
	s.current()
	must(t, os.Remove(file))
	s.current()
	put(t, "3", file)
	s.current()
}

func TestLinks(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	put(t, "1", top, "v1", "a.md")
	put(t, "2", top, "v2", "a.md")
	must(t, os.Symlink("v1", filepath.Join(top, "now")), os.Symlink(filepath.Join(top, "now"), filepath.Join(top, "docs")))
	turn := func(target string) {
		must(t, os.Symlink(target, filepath.Join(top, "tmp")), os.Rename(filepath.Join(top, "tmp"), filepath.Join(top, "now")))
	}
	var system *fsnotify.Watcher
	s := see(t, filepath.Join(top, "docs"), quick, func() (notifier, <-chan fsnotify.Event, <-chan error, error) {
		n, events, errs, err := openSystem()
		system = n.(*fsnotify.Watcher)
		return n, events, errs, err
	})
	put(t, "1b", top, "v1", "a.md")
	s.current()
	s.settle()
	turn("v2")
	s.current()
	s.settle()
	put(t, "1c", top, "v1", "a.md") // not watched any more
	s.silent()
	put(t, "2b", top, "v2", "a.md")
	s.current()
	if list := system.WatchList(); len(list) != 2 || !slices.Contains(list, top) || !slices.Contains(list, filepath.Join(top, "v2")) {
		t.Errorf("watches %q, want the folder of the links and that of the files", list)
	}
	turn("v3") // does not exist yet
	s.current()
	put(t, "3", top, "v3", "a.md")
	s.current()
	s.settle()

	// A link out of the folder is not followed, and a link cycle leads nowhere.
	put(t, "far", top, "far", "away.md")
	must(t, os.Symlink("../far/away.md", filepath.Join(top, "v3", "away.md")), os.Symlink("circle", filepath.Join(top, "v3", "circle")))
	s.next()
	s.settle()
	put(t, "further", top, "far", "away.md")
	s.silent()
	put(t, "3b", top, "v3", "a.md")
	s.current()
}

// few is a notifier with a limited number of watches.
type few struct {
	notifier
	left int
	err  error
}

func (f *few) Add(dir string) error {
	if f.left--; f.left < 0 {
		return f.err
	}
	return f.notifier.Add(dir)
}

func TestNoWatchesLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, "1", dir, "sub", "deep", "a.md")
	var asked *few
	o := quick
	o.poll = 10 * time.Millisecond
	s := see(t, dir, o, func() (notifier, <-chan fsnotify.Event, <-chan error, error) {
		n, events, errs, err := openSystem()
		asked = &few{n, 1, fmt.Errorf("add: %w", syscall.ENOSPC)}
		return asked, events, errs, err
	})
	put(t, "2", dir, "sub", "deep", "a.md")
	s.current()
	s.silent()
	s.stop()
	if len(s.polls) != 1 || !errors.Is(<-s.polls, syscall.ENOSPC) {
		t.Error("not told once that there are no watches left")
	}
	if asked.left >= 0 {
		t.Error("the limit was not reached")
	}
}

// mute is a notifier that accepts every watch and reports nothing, like network file systems for
// remote writes.
type mute struct{}

func (mute) Add(string) error    { return nil }
func (mute) Remove(string) error { return nil }
func (mute) Close() error        { return nil }

func TestPollOnly(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]openFunc{
		"mute": func() (notifier, <-chan fsnotify.Event, <-chan error, error) { return mute{}, nil, nil, nil },
		"none": func() (notifier, <-chan fsnotify.Event, <-chan error, error) { return nil, nil, nil, syscall.EMFILE },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "docs")
			put(t, "0", dir, "a.md")
			o := quick
			o.poll = 10 * time.Millisecond
			s := see(t, dir, o, open)
			put(t, "1", dir, "a.md")
			s.current()
			s.silent()
			put(t, "2", dir, "sub", "b.md")
			s.current()
			must(t, os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "bus")))
			s.current()
			must(t, os.RemoveAll(dir))
			s.current()
			put(t, "3", dir, "a.md")
			s.current()
			s.silent()
		})
	}
}

// If the system lost events, everything is scanned and watched again.
func TestEventsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, "1", dir, "sub", "a.md")
	lost := make(chan error, 1)
	s := see(t, dir, quick, func() (notifier, <-chan fsnotify.Event, <-chan error, error) {
		n, events, _, err := openSystem()
		return closing{n, lost}, events, lost, err
	})
	lost <- fsnotify.ErrEventOverflow
	s.next()
	put(t, "2", dir, "sub", "a.md")
	s.current()
	s.silent()
}

// closing closes a channel of the test along with the notifier.
type closing struct {
	notifier
	c chan error
}

func (c closing) Close() error {
	defer close(c.c)
	return c.notifier.Close()
}
