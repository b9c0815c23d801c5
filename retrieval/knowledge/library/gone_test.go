package library_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// numbered returns a folder of n files.
func numbered(t *testing.T, n int) *testFolder {
	texts := map[string]string{}
	for i := range n {
		texts[numberedName(i)] = fmt.Sprintf("ant %d", i)
	}
	return newFolder(t, texts)
}

func numberedName(i int) string { return fmt.Sprintf("d%d/f%02d.md", i%3, i) }

// remove removes files, by their numbers.
func (f *testFolder) remove(from, to int) {
	f.t.Helper()
	for i := from; i < to; i++ {
		f.must(os.Remove(filepath.Join(f.path, numberedName(i))))
	}
}

// update syncs after a hint; it returns how many files are missing if too many are, else 0.
func (f *testFolder) update(l *library.Library) (gone int) {
	f.t.Helper()
	return f.tooMany(l.Update(f.t.Context(), folder.Folder{ID: "kb", Path: f.path}, nil))
}

func (f *testFolder) tooMany(_ folder.Report, err error) (gone int) {
	f.t.Helper()
	if e, ok := errors.AsType[*folder.GoneError](err); ok {
		return e.Gone
	}
	f.must(err)
	return 0
}

// The base stays as it was if all of two or more files are missing, or more than half and at least
// twenty, and only then.
func TestRule(t *testing.T) {
	for _, c := range []struct {
		files, gone int
		stays       bool
	}{
		{1, 1, false}, {2, 1, false}, {2, 2, true}, {19, 18, false}, {19, 19, true}, {30, 19, false},
		{39, 20, true}, {40, 20, false}, {40, 21, true}, {100, 50, false},
	} {
		f, l := numbered(t, c.files), opened(t, store.Memory, library.Options{})
		f.sync(l)
		before := l.Base("kb").Ref()
		f.remove(0, c.gone)
		f.write("new.md", "a new one") // not read either, as long as files are missing
		_, err := l.Sync(t.Context(), folder.Folder{ID: "kb", Path: f.path}, nil)
		var gone *folder.GoneError
		if errors.As(err, &gone) != c.stays || c.stays && (gone.Gone != c.gone || gone.Files != c.files || gone.Path != f.path) {
			t.Errorf("%d of %d gone: %v", c.gone, c.files, err)
		}
		want := c.files
		if !c.stays {
			want += 1 - c.gone
		}
		if b := l.Base("kb"); b.Content().Documents() != want || c.stays != (b.Ref() == before) {
			t.Errorf("%d of %d gone: %d documents left", c.gone, c.files, b.Content().Documents())
		}
	}
}

// Files excluded by rules are not missing: they are removed at once, and not missed later.
func TestExcludedIsNotGone(t *testing.T) {
	f, l := numbered(t, 60), opened(t, store.Memory, library.Options{})
	f.sync(l)
	f.write(".sidenoteignore", "/d0\n/d1\n")
	if gone := f.update(l); gone != 0 || l.Base("kb").Content().Documents() != 20 {
		t.Fatalf("%d gone, %d documents left", gone, l.Base("kb").Content().Documents())
	}
	f.must(os.RemoveAll(filepath.Join(f.path, "d0")))
	f.must(os.RemoveAll(filepath.Join(f.path, "d1")))
	if gone := f.update(l); gone != 0 {
		t.Errorf("%d gone, which are excluded", gone)
	}
	f.must(os.Rename(filepath.Join(f.path, "d2"), filepath.Join(f.path, "d9")))
	if gone := f.update(l); gone != 20 {
		t.Errorf("%d gone by another name, want 20", gone)
	}
}

// Files that appear and disappear between two walks of the whole folder are not missed.
func TestComingAndGoing(t *testing.T) {
	f, l := numbered(t, 3), opened(t, store.Memory, library.Options{})
	f.sync(l)
	for i := 10; i < 32; i++ { // more than may be missing
		f.write(numberedName(i), "ant")
		f.must(os.Chtimes(f.path, f.now, f.now))
		if gone := f.update(l); gone != 0 {
			t.Fatalf("%d gone", gone)
		}
		f.remove(i, i+1)
		if gone := f.update(l); gone != 0 {
			t.Fatalf("%d gone", gone)
		}
	}
}

// Missing files are compared with the last walk of the whole folder, also by the next process,
// until they are back or an hour has passed.
func TestSinceTheLastWalk(t *testing.T) {
	dir, f := t.TempDir(), numbered(t, 40)
	l := opened(t, dir, library.Options{})
	f.sync(l)
	for i := range 20 {
		f.remove(i, i+1)
		if gone := f.update(l); gone != 0 {
			t.Fatalf("after %d: %d gone", i+1, gone)
		}
	}
	f.must(l.Close())
	l = opened(t, dir, library.Options{})
	f.remove(20, 21)
	if gone := f.update(l); gone != 21 || l.Base("kb").Content().Documents() != 20 {
		t.Errorf("%d gone, %d documents left", gone, l.Base("kb").Content().Documents())
	}
	if gone := f.tooMany(l.Sync(t.Context(), folder.Folder{ID: "kb", Path: f.path}, nil)); gone != 21 {
		t.Errorf("%d gone for a look at all", gone)
	}
	f.write(numberedName(0), "ant 0")
	if gone := f.update(l); gone != 0 || l.Base("kb").Content().Documents() != 20 {
		t.Errorf("one is back: %d gone, %d documents", gone, l.Base("kb").Content().Documents())
	}
	f.must(l.Close())

	s, err := store.Open(t.Context(), dir, store.Options{})
	f.must(err)
	walk, err := s.Walk(t.Context(), "kb")
	f.must(err)
	if age := time.Since(walk.At); len(walk.Sources) != 40 || age < 0 || age > time.Hour {
		t.Fatalf("noted %d files %v ago", len(walk.Sources), age)
	}
	walk.At = walk.At.Add(-time.Hour)
	f.must(errors.Join(s.SetWalk(t.Context(), "kb", walk), s.Close()))
	l = opened(t, dir, library.Options{})
	f.update(l) // walks the whole folder
	f.remove(21, 31)
	if gone := f.update(l); gone != 0 || l.Base("kb").Content().Documents() != 10 {
		t.Errorf("an hour later: %d gone, %d documents", gone, l.Base("kb").Content().Documents())
	}
}

// A folder is not lost if its rules are changed while it is unavailable, and a base that moves to
// another folder does not wait for the files of the previous one.
func TestOtherRulesAndFolders(t *testing.T) {
	f, l := numbered(t, 30), opened(t, store.Memory, library.Options{})
	f.sync(l)
	away := f.path + ".away"
	f.must(errors.Join(os.Rename(f.path, away), os.Mkdir(f.path, 0o755)))
	other := folder.Folder{ID: "kb", Path: f.path, Exclude: []string{"d0/**"}}
	for range 2 {
		if gone := f.tooMany(l.Sync(t.Context(), other, nil)); gone != 30 {
			t.Errorf("%d gone", gone)
		}
		if l.Base("kb").Content() != nil {
			t.Error("it answers by the old rules")
		}
	}
	f.must(errors.Join(os.Remove(f.path), os.Rename(away, f.path)))
	if gone := f.tooMany(l.Sync(t.Context(), other, nil)); gone != 0 || l.Base("kb").Content().Documents() != 20 {
		t.Errorf("%d gone after it is back", gone)
	}
	g := newFolder(t, map[string]string{"a.md": "ant"})
	g.sync(l)
	if n := l.Base("kb").Content().Documents(); n != 1 {
		t.Errorf("%d documents of the other folder", n)
	}
}

// Later walks are compared with the folder after accepted deletions.
func TestAccepted(t *testing.T) {
	f, l := numbered(t, 40), opened(t, store.Memory, library.Options{})
	f.sync(l)
	f.remove(0, 30)
	accept := folder.Folder{ID: "kb", Path: f.path, AcceptDeletions: true}
	if accept.Origin() != (folder.Folder{Path: f.path}).Origin() {
		t.Error("the base would be read anew")
	}
	if gone := f.tooMany(l.Update(t.Context(), accept, nil)); gone != 0 {
		t.Errorf("%d gone", gone)
	}
	f.remove(30, 35)
	if gone := f.update(l); gone != 0 || l.Base("kb").Content().Documents() != 5 {
		t.Errorf("%d gone, %d documents", gone, l.Base("kb").Content().Documents())
	}
}
