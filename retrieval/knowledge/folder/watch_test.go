package folder

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// deadline is the time limit for what should take milliseconds.
const deadline = 20 * time.Second

// seed makes random tests reproducible.
const seed = 1

// quick leaves everything to events: polling would hide missed ones.
var quick = timing{quiet: 20 * time.Millisecond, most: time.Second, poll: time.Hour}

// A watchedFolder is what a call of changed finds: paths, with the text of files. Subfolders are
// not included: an empty one requires no call.
type watchedFolder map[string]string

func readFolder(path string) watchedFolder {
	out := watchedFolder{}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return out
	}
	_ = filepath.WalkDir(real, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && name != real {
			return nil
		}
		rel, _ := filepath.Rel(real, name)
		if text, err := os.ReadFile(name); err == nil {
			out[filepath.ToSlash(rel)] = string(text)
		} else {
			out[filepath.ToSlash(rel)] = "(no file)"
		}
		return nil
	})
	return out
}

// walkOf walks like a library.
func walkOf(path string) WalkTree {
	return func(ctx context.Context, enter func(string)) uint64 {
		return Look(ctx, Folder{ID: "x", Path: path}, nil, enter)
	}
}

// A seer records what each call found.
type seer struct {
	t      *testing.T
	counts func(path string) bool
	read   func() watchedFolder
	calls  chan watchedFolder
	polls  chan error // reasons for polling
	stop   func()     // stops and waits
}

// see watches path until the test ends.
func see(t *testing.T, path string, o timing, open openFunc) *seer {
	t.Helper()
	return seeOnly(t, path, nil, o, open)
}

// seeOnly is see with a counts function.
func seeOnly(t *testing.T, path string, counts func(string) bool, o timing, open openFunc) *seer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &seer{t: t, counts: counts, read: func() watchedFolder { return readFolder(path) }, calls: make(chan watchedFolder, 10_000), polls: make(chan error, 10)}
	ended := make(chan error, 1)
	go func() {
		ended <- watch(ctx, path, walkOf(path), s.counts, func(why error) { s.polls <- why }, func() (again bool) { s.calls <- s.read(); return false }, o, open)
	}()
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("watch: %v", err)
		}
		ended <- nil
	}
	t.Cleanup(s.stop)
	s.next() // it watches now
	return s
}

// next waits for a call.
func (s *seer) next() watchedFolder {
	s.t.Helper()
	select {
	case f := <-s.calls:
		return f
	case <-time.After(deadline):
		s.t.Fatalf("no call in %s", deadline)
		return nil
	}
}

// current waits for a call that found the current state, and for further calls.
func (s *seer) current() {
	s.t.Helper()
	want := s.read()
	for late := time.After(deadline); ; {
		select {
		case f := <-s.calls:
			if maps.Equal(f, want) {
				return
			}
		case <-late:
			s.t.Fatalf("no call found %q", slices.Sorted(maps.Keys(want)))
		}
	}
}

// settle waits until there are no more calls.
func (s *seer) settle() (calls int) {
	for {
		select {
		case <-s.calls:
			calls++
		case <-time.After(10 * quick.quiet):
			return calls
		}
	}
}

// silent fails the test on a call.
func (s *seer) silent() {
	s.t.Helper()
	if n := s.settle(); n > 0 {
		s.t.Fatalf("%d calls for nothing", n)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	must(t, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644))
}

// putUnseen writes a file without changing its size and time.
func putUnseen(t *testing.T, text, name string) {
	t.Helper()
	info, err := os.Stat(name)
	must(t, err)
	put(t, text, name)
	must(t, os.Chtimes(name, info.ModTime(), info.ModTime()))
	if after, err := os.Stat(name); err != nil || after.Size() != info.Size() || !after.ModTime().Equal(info.ModTime()) {
		t.Fatalf("it looks otherwise: %v", err)
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, "old", dir, "a", "old.md")
	s := see(t, dir, quick, openSystem)
	old := filepath.Join(dir, "a", "old.md")
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"create", func() { put(t, "new", dir, "new.md") }},
		{"write", func() { put(t, "neu", dir, "new.md") }},
		{"write below", func() { put(t, "odd", old) }},
		{"write what looks the same", func() { putUnseen(t, "ODD", old) }},
		{"mode", func() { must(t, os.Chmod(old, 0)) }},
		{"mode again", func() { must(t, os.Chmod(old, 0o644)) }},
		{"rename", func() { must(t, os.Rename(old, filepath.Join(dir, "b.md"))) }},
		{"delete", func() { must(t, os.Remove(filepath.Join(dir, "b.md"))) }},
		{"new folders", func() { put(t, "deep", dir, "x", "y", "z", "deep.md") }},
		{"write in them", func() { put(t, "more", dir, "x", "y", "z", "deep.md") }},
		{"move them", func() { must(t, os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "a", "w"))) }},
		{"write there", func() { put(t, "even more", dir, "a", "w", "y", "z", "deep.md") }},
		{"another in their place", func() { put(t, "other", dir, "x", "y", "z", "deep.md") }},
		{"write in both", func() {
			put(t, "1", dir, "a", "w", "y", "z", "deep.md")
			put(t, "2", dir, "x", "y", "z", "deep.md")
		}},
		{"remove them", func() { must(t, os.RemoveAll(filepath.Join(dir, "a"))) }},
		{"and the other ones", func() { must(t, os.RemoveAll(filepath.Join(dir, "x"))) }},
	} {
		t.Log(step.name)
		step.do()
		s.current()
		s.settle()
	}
	s.silent()
}

// After any changes in any order, the last call finds the last state, and no watch is left on a
// wrong name.
func TestFolderAtRandom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quick
	o.quiet = 5 * time.Millisecond
	s := see(t, dir, o, openSystem)
	r := rand.New(rand.NewPCG(1, seed))
	name := func() string {
		path := dir
		for range 1 + r.IntN(3) {
			path = filepath.Join(path, string(rune('a'+r.IntN(3))))
		}
		return path
	}
	for range 10 {
		for range 1 + r.IntN(12) {
			// Many of these fail, such as moving a folder into itself, which is fine.
			switch r.IntN(6) {
			case 0, 1:
				_ = os.MkdirAll(name(), 0o755)
			case 2, 3:
				_ = os.WriteFile(filepath.Join(name(), "f"), fmt.Append(nil, r.Int()), 0o644)
			case 4:
				_ = os.Rename(name(), name())
			case 5:
				if path := name(); r.IntN(3) == 0 {
					_ = os.RemoveAll(path)
				}
			}
		}
		_ = os.WriteFile(filepath.Join(dir, "last"), fmt.Append(nil, r.Int()), 0o644)
		s.current()
		for path := range s.read() { // every folder is watched under its name
			if name := filepath.Join(dir, path); isDir(name) {
				put(t, "probe", name, "probe")
				s.current()
				must(t, os.Remove(filepath.Join(name, "probe")))
				s.current()
			}
		}
	}
}

// New folders are watched immediately, so that a burst in them is not mistaken for quiet.
func TestNewFolderAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n, events, errs, err := openSystem()
	must(t, err)
	in := newInbox()
	pumped := make(chan struct{})
	go func() { defer close(pumped); in.pump(events, errs) }()
	defer func() { must(t, n.Close()); <-pumped }()
	w := &watcher{path: dir, walk: walkOf(dir), notifier: n, seed: maphash.MakeSeed()}
	w.look(t.Context())
	put(t, "1", dir, "a", "b", "c", "deep.md")
	<-in.wake
	if sure, _ := w.handle(t.Context(), in.take()); !sure || !w.dirs[filepath.Join(w.real, "a", "b")] {
		t.Errorf("watched: %v", w.dirs)
	}
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := quick
	o.quiet, o.most = 300*time.Millisecond, 5*time.Second
	s := see(t, dir, o, openSystem)
	for i := range 5000 {
		name := filepath.Join(dir, fmt.Sprint(i%50), fmt.Sprint(i))
		if i < 50 {
			must(t, os.Mkdir(filepath.Dir(name), 0o755))
		}
		must(t, os.WriteFile(name, []byte("text"), 0o644))
	}
	written := time.Now()
	calls := 1
	for len(s.next()) != 1+5000 {
		calls++
	}
	t.Logf("%d calls, %s after the last write", calls, time.Since(written))
	if calls > 5 { // one, unless this test was delayed
		t.Errorf("%d calls", calls)
	}
}

// Files that are not read are not watched, except within folders that are read.
func TestIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, "build/\n", dir, "sub", ".gitignore")
	put(t, "1", dir, ".git", "index")
	put(t, "1", dir, "sub", "build", "out.md")
	put(t, "1", dir, "sub", "a.md")
	s := see(t, dir, quick, openSystem)
	put(t, "2", dir, ".git", "index")
	must(t, os.Remove(filepath.Join(dir, ".git", "index")))
	put(t, "2", dir, "sub", "build", "out.md")
	s.silent()
	put(t, "2", dir, "sub", "a.md")
	s.current()
	s.settle()
	put(t, "", dir, "sub", ".gitignore")
	s.current()
	s.settle()
	put(t, "3", dir, "sub", "build", "out.md")
	s.current()
}

// The digest does not change without a change, and there is no call.
func TestIdle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, "1", dir, "sub", "a.md")
	must(t, os.Symlink("sub/a.md", filepath.Join(dir, "link.md")), os.Symlink("none", filepath.Join(dir, "dangling")))
	o := quick
	o.poll = time.Millisecond
	see(t, dir, o, openSystem).silent()
}

func TestEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Watch(ctx, filepath.Join(t.TempDir(), "none"), walkOf("none"), nil, nil, func() (again bool) { t.Error("called after the end"); return false }); err != nil {
		t.Error(err)
	}
}

// A change is not delayed by other files that are written all the time.
func TestOtherNamesDelayNothing(t *testing.T) {
	dir := t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	own, beside := filepath.Join(real, "own"), filepath.Join(real, "beside")
	patient := timing{quiet: time.Second, most: time.Hour, poll: time.Hour}
	s := seeOnly(t, dir, func(path string) bool { return path == own }, patient, openSystem)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				_ = os.WriteFile(beside, []byte{byte(n)}, 0o600)
			}
		}
	}()
	defer func() { close(stop); <-ended }()
	if err := os.WriteFile(own, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := s.next(); found["own"] != "new" {
		t.Errorf("found %v", found)
	}
}
