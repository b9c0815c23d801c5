//go:build unix

package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/store"
)

// meetLimit is run by a child process: it fills the folder, with a limit on file sizes of LIMIT
// bytes if set, until there is no space, and continues when there is.
func meetLimit() error {
	dir, limit := os.Getenv("DIR"), uint64(0)
	ballast := dir + "/ballast"
	makeRoom := func() error { return os.Remove(ballast) }
	if _, err := fmt.Sscan(os.Getenv("LIMIT"), &limit); err == nil {
		signal.Ignore(syscall.SIGXFSZ)
		var old syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			return err
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: old.Max}); err != nil {
			return err
		}
		makeRoom = func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old) }
	} else if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		return err
	}
	if err := s.CreateBase(ctx, "kb"); err != nil {
		return err
	}
	image := []byte(strings.Repeat("image ", 1<<17))
	full := map[string]int{}
	for n := 0; len(full) < 2 || n%10 != 0; n++ { // until both kinds of write have failed
		if n > 10_000 {
			return fmt.Errorf("it never filled: %v", full)
		}
		what := "documents"
		if n%10 == 9 {
			what = "segment"
			_, err = store.VectorFilesOf(s).PutSegment(ctx, "kb", image, image, nil)
		} else {
			_, err = s.Put(ctx, "kb", []store.Document{doc(fmt.Sprintf("a%d", n), 2), doc(fmt.Sprintf("b%d", n), 2)})
		}
		switch {
		case errors.Is(err, store.ErrFull):
			full[what]++
			fmt.Println(what, err)
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		}
		if err := whole(s); err != nil {
			return fmt.Errorf("after %v: %w", full, err)
		}
	}
	if err := makeRoom(); err != nil {
		return err
	}
	if _, err := s.Put(ctx, "kb", []store.Document{doc("last", 2)}); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	if _, err := s.PutSegment(ctx, "kb", image, nil); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	return errors.Join(whole(s), s.Close())
}

// whole checks that the totals of a base whose documents are all of revision 2 are right, and that
// its segments are intact.
func whole(s *store.Store) error {
	ctx := context.Background()
	var docs []store.Document
	for k, err := range s.Known(ctx, "kb") {
		if err != nil {
			return err
		}
		docs = append(docs, doc(k.ID, 2))
	}
	base, err := s.Base(ctx, "kb")
	if diff := cmp.Diff(total("kb", docs...), base, ignoreTime); diff != "" || err != nil {
		return fmt.Errorf("%s, %w", diff, err)
	}
	list, _, err := segments(ctx, s, "kb")
	for _, seg := range list {
		if _, err := s.Image(ctx, seg); err != nil {
			return err
		}
	}
	return err
}

// Without disk space a write fails and changes nothing; with space it succeeds.
//
// Row K5 of deploy/CONTRIBUTING.md.
func TestFull(t *testing.T) {
	f := func(t *testing.T, dir string, env ...string) {
		out, err := runChild(t, "limit", append(env, "DIR="+dir)...)
		if err != nil {
			t.Fatalf("%v after\n%s", err, out)
		}
		for line := range strings.Lines(out) {
			if !strings.Contains(line, "no space left") || !strings.Contains(line, dir) {
				t.Errorf("unclear: %s", line)
			}
		}
		s := open(t, dir, store.Options{})
		if err := whole(s); err != nil {
			t.Error(err)
		}
		if got, err := s.Document(t.Context(), "kb", "last"); err != nil || !cmp.Equal(got.Document, doc("last", 2)) {
			t.Errorf("the last document: %v, %v", got, err)
		}
	}
	t.Run("limit", func(t *testing.T) { f(t, t.TempDir(), "LIMIT=600000") })
	t.Run("disk", func(t *testing.T) {
		dir := t.TempDir()
		if err := mountSmall(t, dir); err != nil {
			t.Skipf("a small disk cannot be mounted here: %v", err)
		}
		f(t, dir)
	})
}

// A process that starts without disk space can read the folder, and write once there is space.
func TestOpenFull(t *testing.T) {
	dir := t.TempDir()
	if err := mountSmall(t, dir); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(s.CreateBase(t.Context(), "kb"), s.Close())
	ballast, openErr := os.Create(dir + "/ballast")
	if err := errors.Join(err, openErr); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	_ = ballast.Close()
	s = open(t, dir, store.Options{Address: "127.0.0.1:8081"})
	if _, err := s.Base(t.Context(), "kb"); err != nil {
		t.Error(err)
	}
	if _, err := s.Put(t.Context(), "kb", []store.Document{doc("a", 2)}); !errors.Is(err, store.ErrFull) {
		t.Errorf("written without room: %v", err)
	}
	if err := os.Remove(dir + "/ballast"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "kb", []store.Document{doc("a", 2)}); err != nil {
		t.Error(err)
	}
}

// backUpFull is run by a child process: it backs up DIR to FILE with a limit on file sizes.
func backUpFull() error {
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 60_000, Max: old.Max}); err != nil {
		return err
	}
	if _, err := store.Backup(context.Background(), os.Getenv("DIR"), os.Getenv("FILE")); !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("it is not full: %w", err)
	}
	return nil
}

// Without space there is no backup, and an earlier one stays.
func TestBackupWithoutSpace(t *testing.T) {
	_, dir := filled(t)
	file := filepath.Join(t.TempDir(), "backup.tar")
	if err := os.WriteFile(file, []byte("earlier"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := knowledgetest.Child(t, "backup", "DIR="+dir, "FILE="+file).Run(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"backup.tar": "earlier"}, filesBelow(t, filepath.Dir(file))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
