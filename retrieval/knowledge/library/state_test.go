package library_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// A library follows while another one writes, and writes when that one has closed; its bases stay
// the same.
func TestFollowerBecomesWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l, err := library.New(t.Context(), dir, deps(), library.Options{Trouble: func(x library.Trouble) { t.Errorf("%+v", x) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	b := l.Base("kb")
	if err := l.Open(t.Context(), false); !errors.Is(err, os.ErrNotExist) || l.Standing() != library.NotOpen {
		t.Errorf("nothing to follow: %v, %v", err, l.Standing())
	}
	if bases, err := l.StoredBases(t.Context()); err != nil || len(bases) != 0 {
		t.Errorf("holds %v, %v", bases, err)
	}
	if err := l.CreateBase(t.Context(), "kb"); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("made a base: %v", err)
	}

	w := opened(t, dir, library.Options{})
	f := newFolder(t, knowledgetest.Handbook())
	f.sync(w)
	var locked *store.LockedError
	if err := l.Open(t.Context(), true); !errors.As(err, &locked) || l.Standing() != library.NotOpen {
		t.Errorf("beside the writer: %v, %v", err, l.Standing())
	}
	f.must(l.Open(t.Context(), false))
	f.must(l.Load(t.Context(), nil))
	sameAnswers(t, b, w.Base("kb"))
	f.must(w.Close())

	f.must(l.Open(t.Context(), true))
	if b.Content() == nil || l.Standing() != library.Writing {
		t.Errorf("standing %v", l.Standing())
	}
	f.write("new.md", "# New\n\nAn ant.\n")
	f.sync(l)
	texts := knowledgetest.Handbook()
	texts["new.md"] = "# New\n\nAn ant.\n"
	sameAnswers(t, b, fresh(t, documents(texts)))
	f.must(l.Leave(t.Context()))
	sameAnswers(t, b, fresh(t, documents(texts)))
	if l.Standing() != library.NotOpen {
		t.Errorf("standing %v", l.Standing())
	}
	f.must(l.Open(t.Context(), true)) // the lock is free again
}

// Damage of a base is known until the folder is reopened; the other bases answer.
func TestWrongBase(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, library.Options{})
	newFolder(t, knowledgetest.Handbook()).sync(l)
	if _, err := l.Put(t.Context(), "kb", chunk.Document{ID: "own", Text: "ant"}); err != nil {
		t.Fatal(err)
	}
	if err := l.CreateBase(t.Context(), "sound"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "knowledge.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "UPDATE chunk SET text = 'bee' WHERE text = 'ant'")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	l = opened(t, dir, library.Options{})
	if err := l.BaseError("kb"); err != nil {
		t.Errorf("before it is met: %v", err)
	}
	var corrupt *store.CorruptError
	if _, err := l.Document(t.Context(), "kb", "own"); !errors.As(err, &corrupt) {
		t.Fatalf("read: %v", err)
	}
	if err := l.BaseError("kb"); !errors.As(err, &corrupt) {
		t.Errorf("met: %v", err)
	}
	if err := errors.Join(l.BaseError("sound"), l.BaseError("nothing"), l.BaseError("")); err != nil {
		t.Errorf("the others: %v", err)
	}
	if err := errors.Join(l.Leave(t.Context()), l.Open(t.Context(), true), l.BaseError("kb")); err != nil {
		t.Errorf("opened anew: %v", err)
	}
}

// Bases that are not wanted do not answer, also in a follower.
func TestUnwanted(t *testing.T) {
	dir := t.TempDir()
	w := opened(t, dir, library.Options{})
	f := newFolder(t, knowledgetest.Handbook())
	f.sync(w)
	for _, wanted := range []bool{true, false} {
		r := opened(t, dir, library.Options{ReadOnly: true, Wanted: func(b store.Base) bool { return b.ID == "kb" && wanted }})
		if got := r.Base("kb").Content() != nil; got != wanted {
			t.Errorf("answers: %v, want %v", got, wanted)
		}
	}
}
