package library_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
)

// A purge that lacks the memory to write a segment anew says so, and succeeds once it is there.
func TestPurgeSaysThatItLacksMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	with := deps()
	with.Memory = folder.NewMemoryLimit()
	dir := t.TempDir()
	l, err := library.OpenLoaded(t.Context(), dir, with, library.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := l.CreateBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	documents := []chunk.Document{{ID: "a", Text: strings.Repeat("An ant. ", 200_000)}, {ID: "b", Text: "A bee."}}
	if _, err := l.Put(t.Context(), "kb", documents...); err != nil {
		t.Fatal(err)
	}
	limit(64 << 10)
	if err := l.Delete(t.Context(), "kb", "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Purge(t.Context(), "kb"); !errors.Is(err, folder.ErrNotEnoughMemory) {
		t.Errorf("with too little memory: %v", err)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if _, err := l.Purge(t.Context(), "kb"); err != nil {
		t.Error(err)
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if bytes.Contains(content, []byte("A bee.")) {
			t.Errorf("%s has the text", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
