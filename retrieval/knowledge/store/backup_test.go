package store_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/store"
)

// filled returns a folder that is open for writing, with documents, a segment and other files.
func filled(t *testing.T) (*store.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "kb", []store.Document{doc("a", 2), doc("b", 3)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutSegment(t.Context(), "kb", []byte("image"), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "budgets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"budgets/one.log", "budgets/lock", "segments/x.new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s, dir
}

// filesBelow returns the files below a folder and what they hold, except for the database.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		if all[filepath.ToSlash(name)] = string(b); strings.HasPrefix(name, "knowledge.db") {
			all[name] = ""
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A folder that is being written is backed up as of one moment, and restored with all that it held.
func TestBackup(t *testing.T) {
	s, dir := filled(t)
	file, to := filepath.Join(t.TempDir(), "backup.tar"), filepath.Join(t.TempDir(), "new", "state")
	for _, left := range []string{".new", ".db.new"} { // by a process that was killed
		if err := os.WriteFile(file+left, []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	size, err := store.Backup(t.Context(), dir, file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || info.Size() != size {
		t.Errorf("%v, %v", info, err)
	}
	if list := filesBelow(t, filepath.Dir(file)); len(list) != 1 {
		t.Errorf("beside it there are %v", len(list))
	}
	want := filesBelow(t, dir)
	for _, gone := range []string{"lock", "budgets/lock", "segments/x.new", "knowledge.db-wal", "knowledge.db-shm"} {
		if _, ok := want[gone]; !ok {
			t.Errorf("there was no %s", gone)
		}
		delete(want, gone)
	}
	if _, err := s.Put(t.Context(), "kb", []store.Document{doc("c", 1)}); err != nil { // after the backup
		t.Fatal(err)
	}
	if err := store.Restore(t.Context(), file, to); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, filesBelow(t, to)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := store.Open(t.Context(), to, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	list, err := again.Documents(t.Context(), "kb", "", 10)
	if err != nil || len(list) != 2 || list[0].ID != "a" || list[1].ID != "b" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := again.Put(t.Context(), "kb", []store.Document{doc("d", 1)}); err != nil {
		t.Error(err)
	}
	if err := store.Restore(t.Context(), file, to); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("into a folder that is used: %v", err)
	}
}

// While documents are written, each backup holds whole transactions.
func TestBackupWhileWriting(t *testing.T) {
	s, dir := filled(t)
	written := make(chan error, 1)
	go func() {
		for n := range 40 {
			if _, err := s.Put(t.Context(), "kb", []store.Document{doc(fmt.Sprintf("x%03d", n), 2), doc(fmt.Sprintf("y%03d", n), 2)}); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	for n := range 4 {
		file, to := filepath.Join(t.TempDir(), "backup.tar"), filepath.Join(t.TempDir(), "state")
		if _, err := store.Backup(t.Context(), dir, file); err != nil {
			t.Fatal(err)
		}
		if err := store.Restore(t.Context(), file, to); err != nil {
			t.Fatal(err)
		}
		r, err := store.OpenReadOnly(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.Documents(t.Context(), "kb", "", 1000)
		if err != nil || len(list)%2 != 0 {
			t.Errorf("backup %d: %d documents, %v", n, len(list), err)
		}
		_ = r.Close()
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// What cannot be backed up says why, and leaves an earlier backup as it is.
func TestBackupRefused(t *testing.T) {
	_, dir := filled(t)
	file := filepath.Join(t.TempDir(), "backup.tar")
	if err := os.WriteFile(file, []byte("earlier"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"inside":    {dir, filepath.Join(dir, "segments", "backup.tar")},
		"no folder": {filepath.Join(dir, "none"), file},
		"no place":  {dir, filepath.Join(dir, "..", "none", "backup.tar")},
	} {
		if _, err := store.Backup(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "earlier" {
		t.Errorf("the earlier backup: %q, %v", b, err)
	}
}

// A backup that is damaged, cut short or hostile is refused: the folder stays empty, and nothing
// outside it is written.
func TestRestoreRefused(t *testing.T) {
	_, dir := filled(t)
	file := filepath.Join(t.TempDir(), "backup.tar")
	if _, err := store.Backup(t.Context(), dir, file); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Replace(good, []byte("of budgets/one.log"), []byte("of budgets/two.log"), 1)
	if bytes.Equal(damaged, good) {
		t.Fatal("nothing was damaged")
	}
	hostile := func(h tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		h.Mode = 0o777
		if err := errors.Join(w.WriteHeader(&h), func() error { _, err := io.WriteString(w, strings.Repeat("x", int(h.Size))); return err }(), w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	huge := hostile(tar.Header{Name: "segments/a", Size: 3})
	copy(huge[124:], "77777777777\x00") // the size
	var sum int
	copy(huge[148:156], "        ")
	for _, b := range huge[:512] {
		sum += int(b)
	}
	copy(huge[148:], fmt.Sprintf("%06o\x00 ", sum))
	for name, content := range map[string][]byte{
		"empty":     nil,
		"no tar":    []byte("PK" + strings.Repeat("x", 5000)),
		"cut short": good[:len(good)/2],
		"no sums":   hostile(tar.Header{Name: "knowledge.db", Size: 3}),
		"damaged":   damaged,
		"above":     hostile(tar.Header{Name: "../outside", Size: 3}),
		"absolute":  hostile(tar.Header{Name: filepath.ToSlash(filepath.Join(dir, "outside")), Size: 3}),
		"link":      hostile(tar.Header{Name: "segments", Typeflag: tar.TypeSymlink, Linkname: dir}),
		"device":    hostile(tar.Header{Name: "modes.json", Typeflag: tar.TypeFifo}),
		"huge":      huge,
	} {
		t.Run(name, func(t *testing.T) {
			at, into := t.TempDir(), ""
			into = filepath.Join(at, "a", "state")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := store.Restore(t.Context(), file, into); err == nil {
				t.Error("it was restored")
			}
			if list := filesBelow(t, at); len(list) > 0 {
				t.Errorf("there are %v", list)
			}
			if _, err := os.Stat(filepath.Join(dir, "outside")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something was written outside: %v", err)
			}
		})
	}
}
