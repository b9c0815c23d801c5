//go:build unix

package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// modes returns the files of a folder, and the folder itself, that others may access, with their
// modes.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	open := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			open[path] = info.Mode().Perm()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// private checks that only the owner may access anything.
func private(t *testing.T, when, dir string) {
	t.Helper()
	if open := modes(t, dir); len(open) > 0 {
		t.Errorf("%s: %v", when, open)
	}
}

// loosen makes everything in a folder readable for everybody, as older releases did for the group.
func loosen(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Others cannot read any file of the folder at any step of the writer, whatever the umask, nor
// files that a follower makes.
func TestStateFolderIsPrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "deeper", "state")
	steps := 0
	s, err := store.Open(t.Context(), dir, store.Before(store.Options{}, func(step string) {
		steps++
		private(t, "before "+step, dir)
	}))
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "kb")
	put(t, s, "kb", doc("a", 1))
	if _, err := s.PutSegment(t.Context(), "kb", []byte("image"), nil); err != nil {
		t.Fatal(err)
	}
	private(t, "beside the writer", dir)
	private(t, "above it", filepath.Dir(dir))
	follow(t, dir)
	closeStore(t, s)
	for _, name := range []string{"-wal", "-shm"} { // then the follower makes them
		if err := os.Remove(filepath.Join(dir, "knowledge.db"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := follow(t, dir).Bases(t.Context()); err != nil {
		t.Fatal(err)
	}
	private(t, "of a follower", dir)
	if steps < 5 {
		t.Errorf("%d steps were looked at", steps)
	}
}

// The files of an older release are made private by the next process that opens them.
func TestOlderStateFolderIsTightened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := opened(t, dir)
	create(t, s, "kb")
	if _, err := s.PutSegment(t.Context(), "kb", []byte("image"), nil); err != nil {
		t.Fatal(err)
	}
	loosened := func(want int) {
		t.Helper()
		_ = os.Remove(filepath.Join(dir, "admin-token")) // older releases have none
		loosen(t, dir)
		if loose := modes(t, dir); len(loose) < want {
			t.Fatalf("loosened %v only", loose)
		}
	}
	loosened(7) // the folder, three files of SQLite, lock, segments and one in it
	follow(t, dir)
	private(t, "by a follower", dir)
	loosened(7)
	if _, err := store.Open(t.Context(), dir, store.Options{}); err == nil {
		t.Error("there were two writers")
	}
	private(t, "by one that waits", dir)
	closeStore(t, s)
	loosened(7)
	open(t, dir, store.Options{})
	private(t, "by the next writer", dir)
}

// A folder with other files may be meant for others: its mode stays, but this package's files in
// it are made private.
func TestSharedFolderStaysOpen(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	loosen(t, dir)
	open(t, dir, store.Options{})
	if open := modes(t, dir); len(open) != 2 || open[dir] != 0o755 || open[filepath.Join(dir, "notes.txt")] != 0o644 {
		t.Errorf("open to others: %v", open)
	}
}

// The first writer of a folder makes its token, which is permanent: later writers and followers
// get the same, and another folder has another.
func TestStateTokenIsMadeOnce(t *testing.T) {
	dir, other := filepath.Join(t.TempDir(), "state"), t.TempDir()
	if token, err := store.AdminToken(dir); token != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before there is a folder: %q, %v", token, err)
	}
	if token, err := store.AdminToken(store.Memory); token != "" || err == nil || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("in memory: %q, %v", token, err)
	}
	seen := map[string]bool{}
	for _, dir := range []string{dir, dir, other} {
		s := opened(t, dir)
		token, err := store.AdminToken(dir)
		if err != nil || len(token) != 43 {
			t.Errorf("%q, %v", token, err)
		}
		seen[token] = true
		closeStore(t, s)
	}
	if len(seen) != 2 {
		t.Errorf("two folders have %d tokens", len(seen))
	}
}

// An invalid token, or one that others could have read, is replaced by the next writer; until then
// AdminToken fails.
func TestStateTokenIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "admin-token")
	closeStore(t, opened(t, dir))
	was, err := store.AdminToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := func(what string, damage func() error) {
		t.Helper()
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if token, err := store.AdminToken(dir); token != "" || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %q, %v", what, token, err)
		}
		closeStore(t, opened(t, dir))
		token, err := store.AdminToken(dir)
		if err != nil || token == was || len(token) != 43 {
			t.Errorf("%s: replaced by %q, %v", what, token, err)
		}
		private(t, what, path)
		was = token
	}
	write := func(text string) func() error { return func() error { return os.WriteFile(path, []byte(text), 0o600) } }
	f("gone", func() error { return os.Remove(path) })
	f("empty", write(""))
	f("cut", write(was[:20]))
	f("chosen", write("correct-horse-battery-staple"))
	f("binary", write("\x00"+was[1:]))
	f("longer", write(was+was))
	f("huge", write(strings.Repeat(was+"\n", 1000)))
	f("a folder", func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) })
	f("readable", func() error { return os.Chmod(path, 0o640) })
	f("half written", func() error { return os.Rename(path, path+".new") })
}

// opened opens a folder until the test ends.
func opened(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
