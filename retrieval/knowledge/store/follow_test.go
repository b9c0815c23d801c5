//go:build unix

package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/store"
)

// A follower is a process that follows a folder.
type follower struct {
	in  io.Writer
	out *bufio.Scanner
}

func startFollower(t *testing.T, dir string, env ...string) *follower {
	t.Helper()
	cmd := knowledgetest.Child(t, "follow", append(env, "DIR="+dir)...)
	in, out := pipes(t, cmd)
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("follower: %v", err)
		}
	})
	return &follower{in: in, out: out}
}

func pipes(t *testing.T, cmd *exec.Cmd) (io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return in, bufio.NewScanner(out)
}

func (f *follower) sees(t *testing.T) string {
	t.Helper()
	if _, err := fmt.Fprintln(f.in); err != nil {
		t.Fatal(err)
	}
	if !f.out.Scan() {
		t.Fatal("the follower ended")
	}
	return f.out.Text()
}

// Followers in this process and others see each commit with their next read, also after the writer
// has closed, and while the next one writes.
func TestFollowers(t *testing.T) {
	dir := t.TempDir()
	if _, err := store.OpenReadOnly(t.Context(), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("an empty folder: %v", err)
	}
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	here := follow(t, dir)
	there := startFollower(t, dir)
	look := func(want string) {
		t.Helper()
		if got, err := describe(here); err != nil || got != want {
			t.Errorf("here: %q, %v; want %q", got, err, want)
		}
		if got := there.sees(t); got != want {
			t.Errorf("there: %q; want %q", got, want)
		}
	}
	look("version 0")
	create(t, s, "kb")
	look("version 1 kb")
	put(t, s, "kb", doc("a", 1), doc("b", 3))
	look("version 2 kb a/0=1, a/1=1, b/0=3,")
	seg, err := s.PutSegment(t.Context(), "kb", []byte("image"), nil)
	if err != nil {
		t.Fatal(err)
	}
	look("version 3 kb a/0=1, a/1=1, b/0=3, image")
	closeStore(t, s)
	look("version 3 kb a/0=1, a/1=1, b/0=3, image")
	s = open(t, dir, store.Options{})
	if err := s.DropSegments(t.Context(), "kb", seg.Name); err != nil {
		t.Fatal(err)
	}
	put(t, s, "kb", doc("a", 3))
	look("version 5 kb a/0=3, b/0=3,")
	if _, err := here.Image(t.Context(), seg); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a segment that was dropped: %v", err)
	}
	for _, err := range []error{here.CreateBase(t.Context(), "x"), here.DeleteBase(t.Context(), "kb"), here.Delete(t.Context(), "kb", "a"), here.DropSegments(t.Context(), "kb", "x")} {
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("a write by a follower: %v", err)
		}
	}
}

// A follower that polls every second sees a commit within two.
func TestFollowsInTime(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	there := startFollower(t, dir)
	before := there.sees(t)
	create(t, s, "kb")
	committed, look := time.Now(), time.NewTicker(time.Second)
	defer look.Stop()
	for range look.C {
		seen := there.sees(t) != before
		if took := time.Since(committed); seen && took < 2*time.Second {
			return
		} else if took > 2*time.Second {
			t.Fatalf("not within %v", took)
		}
	}
}

// A user without write permission can follow the folder, with and without a writer, and read a
// copy that contains only the database.
func TestFollowWithoutRights(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	create(t, s, "kb")
	put(t, s, "kb", doc("a", 1))
	var env []string
	if os.Getuid() == 0 {
		env = []string{"UID_OF_CHILD=65534"} // root may write everything
	}
	readable(t, dir)
	there := startFollower(t, dir, env...)
	want := "version 2 kb a/0=1, a/1=1,"
	if got := there.sees(t); got != want {
		t.Errorf("beside the writer: %q", got)
	}
	put(t, s, "kb", doc("a", 3))
	want = "version 3 kb a/0=3,"
	if got := there.sees(t); got != want {
		t.Errorf("after a commit: %q", got)
	}

	other := t.TempDir()
	s, err := store.Open(t.Context(), other, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "closed")
	closeStore(t, s)
	readable(t, other)
	if got := startFollower(t, other, env...).sees(t); got != "version 1 closed" {
		t.Errorf("without a writer: %q", got)
	}

	moved := t.TempDir()
	data, err := os.ReadFile(filepath.Join(other, "knowledge.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(moved, "knowledge.db"), data, 0o444); err != nil {
		t.Fatal(err)
	}
	readable(t, moved)
	if got := startFollower(t, moved, env...).sees(t); got != "version 1 closed" {
		t.Errorf("of a copy: %q", got)
	}
}

// readable makes the folder readable for everybody and not writable except through the owner's
// open files.
func readable(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() { _ = os.Chmod(dir, 0o755) }) // so that it can be removed
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o555)
		}
		return os.Chmod(path, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Only one process writes; others get an error with its identity and address.
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	cmd := knowledgetest.Child(t, "hold", "DIR="+dir)
	in, out := pipes(t, cmd)
	if !out.Scan() {
		t.Fatal("the holder did not start")
	}
	var locked *store.LockedError
	_, err := store.Open(t.Context(), dir, store.Options{})
	if !errors.As(err, &locked) || locked.PID != cmd.Process.Pid || locked.Address != "127.0.0.1:8081" || locked.Dir != dir {
		t.Errorf("a second writer: %#v", err)
	}
	if !strings.Contains(err.Error(), "process "+strconv.Itoa(cmd.Process.Pid)) || !strings.Contains(err.Error(), "answers at 127.0.0.1:8081") {
		t.Errorf("a second writer: %v", err)
	}
	if who := store.Writer(dir); who == nil || *who != *locked {
		t.Errorf("the writer is %+v", who)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if who := store.Writer(dir); who != nil {
		t.Errorf("the writer is %+v, and nobody writes", who)
	}
	open(t, dir, store.Options{})
	if _, err := store.Open(t.Context(), dir, store.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("a second writer in one process: %v", err)
	}
}
