package library_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// follow opens a folder for reading and follows its writer until the test ends.
func follow(t *testing.T, dir string, trouble func(library.Trouble)) *library.Library {
	t.Helper()
	l := opened(t, dir, library.Options{ReadOnly: true, Trouble: trouble})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Follow(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("follow: %v", err)
		}
	})
	return l
}

// sees waits until a base has a generation, at most for most.
func sees(t *testing.T, b *knowledge.Base, generation string, most time.Duration) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for b.Ref().Generation != generation {
		if <-tick.C; time.Since(start) > most {
			t.Fatalf("not seen within %v: at %q, want %q", most, b.Ref().Generation, generation)
		}
	}
}

// A follower answers like the writer within two seconds, and continues to answer while segments
// are merged and removed.
func TestFollow(t *testing.T) {
	const bound = 2 * time.Second
	dir := t.TempDir()
	w := opened(t, dir, library.Options{})
	f := newFolder(t, knowledgetest.Handbook())
	f.sync(w)
	r := follow(t, dir, nil)
	sees(t, r.Base("kb"), w.Base("kb").Ref().Generation, 0)

	ctx, stop := context.WithCancel(t.Context())
	var searches sync.WaitGroup
	searches.Go(func() {
		for ctx.Err() == nil {
			q := retrieval.Query{Text: "parental leave ant", Settings: retrieval.DefaultSettings()}
			if res, err := (retrieval.WithTexts{Next: r.Base("kb")}).Retrieve(t.Context(), q); err != nil || len(res.Sources) == 0 {
				t.Errorf("while it changes: %v, %v", res.Sources, err)
				return
			}
			runtime.GC() // unmaps unreferenced files
		}
	})
	for i := range 2*index.MergeAt + 1 {
		if _, err := w.Put(t.Context(), "kb", chunk.Document{ID: fmt.Sprint(i), Text: fmt.Sprintf("ant %d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	w.Quiet()
	sees(t, r.Base("kb"), w.Base("kb").Ref().Generation, bound)
	sameAnswers(t, r.Base("kb"), w.Base("kb"))
	stop()
	searches.Wait()

	f.write("leave.md", "Something else.")
	f.sync(w)
	sees(t, r.Base("kb"), w.Base("kb").Ref().Generation, bound)
	if err := w.CreateBase(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	sees(t, r.Base("other"), w.Base("other").Ref().Generation, bound)
	if err := w.DeleteBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	sees(t, r.Base("kb"), "", bound)
	if _, err := r.Put(t.Context(), "other", chunk.Document{ID: "a"}); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("written by a follower: %v", err)
	}
}

// If the writer has left documents in damaged segments or in none, a follower makes its own
// segments and reports it.
func TestFollowDamaged(t *testing.T) {
	dir := t.TempDir()
	w := opened(t, dir, library.Options{})
	newFolder(t, knowledgetest.Handbook()).sync(w)
	want := w.Base("kb")
	files, err := filepath.Glob(filepath.Join(dir, "segments", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for what, hurt := range map[string]func() error{
		"table":   func() error { return os.WriteFile(files[0], flipped(image, 60), 0o600) },
		"missing": func() error { return os.Remove(files[0]) },
	} {
		if err := hurt(); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var told []string
		r := opened(t, dir, library.Options{ReadOnly: true, Trouble: func(x library.Trouble) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, x.File)
		}})
		sameAnswers(t, r.Base("kb"), want)
		if !slices.Contains(told, filepath.Base(files[0])) {
			t.Errorf("%s: told of %q", what, told)
		}
	}
}

// flipped returns an image with one bit flipped.
func flipped(image []byte, at int) []byte {
	bad := slices.Clone(image)
	bad[at] ^= 1
	return bad
}

// If a writer dies between writing and indexing documents, a follower waits only for a moment.
func TestFollowADeadWriter(t *testing.T) {
	dir := t.TempDir()
	w := opened(t, dir, library.Options{})
	newFolder(t, knowledgetest.Handbook()).sync(w)
	r := follow(t, dir, nil)
	old := r.Base("kb").Ref().Generation
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const first = "benefits.md"
	entry, err := s.Document(t.Context(), "kb", first)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "kb", first); err != nil {
		t.Fatal(err)
	}
	d := entry.Document
	d.ID, d.Chunks = "new", []store.Chunk{{Text: "ant"}}
	d.Sum[0]++ // must differ for another document
	if _, err := s.Put(t.Context(), "kb", []store.Document{d}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for r.Base("kb").Ref().Generation == old {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it waits for ever")
		}
	}
	if _, ok := shownIDs(r.Base("kb"))["new"]; !ok {
		t.Error("the new document is not shown")
	}
}

func shownIDs(b *knowledge.Base) map[string]bool {
	out := map[string]bool{}
	for s := range b.Content().All() {
		out[s.Doc] = true
	}
	return out
}

// A search that finds damage reports the file, and the segment is made again.
func TestDamageMet(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not mapped")
	}
	dir := t.TempDir()
	var mu sync.Mutex
	var told []library.Trouble
	l := opened(t, dir, library.Options{Trouble: func(x library.Trouble) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, x)
	}})
	newFolder(t, knowledgetest.Handbook()).sync(l)
	name := filepath.Join(dir, "segments", library.Files(l.Base("kb"))[0])
	image, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(image, []byte("16 weeks of paid leave"))
	if _, err := file.WriteAt([]byte("X"), int64(at)); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	q := retrieval.Query{Text: "parental leave", Settings: retrieval.DefaultSettings()}
	res, err := retrieval.WithTexts{Next: l.Base("kb")}.Retrieve(t.Context(), q)
	if !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonError || !strings.Contains(err.Error(), filepath.Base(name)) {
		t.Errorf("met: %q, %v", res.Reason, err)
	}
	l.Quiet()
	sameAnswers(t, l.Base("kb"), fresh(t, documents(knowledgetest.Handbook())))
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || told[0].File != filepath.Base(name) || told[0].Knowledge != "kb" {
		t.Errorf("told %+v", told)
	}
}
