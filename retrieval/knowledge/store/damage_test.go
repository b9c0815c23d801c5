package store_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// Damage that a quick check of the database does not find is found when it is read, and other
// bases are not affected.
func TestDamageIsFoundWhereItIsRead(t *testing.T) {
	known := func(s *store.Store) error {
		for _, err := range s.Known(t.Context(), "hurt") {
			if err != nil {
				return err
			}
		}
		return nil
	}
	lookup := func(s *store.Store) error { _, err := s.Lookup(t.Context(), "hurt", "a"); return err }
	view := func(s *store.Store) error { _, err := s.View(t.Context(), "hurt"); return err }
	bases := func(s *store.Store) error {
		list, err := s.Bases(t.Context())
		if len(list) != 1 || list[0].ID != "sound" {
			t.Errorf("bases: %+v", list)
		}
		return err
	}
	document := func(s *store.Store) error { _, err := s.Document(t.Context(), "hurt", "a"); return err }
	again := func(s *store.Store) error {
		_, err := s.Put(t.Context(), "hurt", []store.Document{doc("a", 2)})
		return err
	}
	remove := func(s *store.Store) error { return s.Delete(t.Context(), "hurt", "a") }
	for name, c := range map[string]struct {
		hurt  string
		reads []func(*store.Store) error
	}{
		"source":   {"UPDATE document SET source = 'x' WHERE id = 'a' AND base = 2", []func(*store.Store) error{known, lookup, document, again, remove}},
		"sum":      {"UPDATE document SET sum = zeroblob(32) WHERE id = 'a' AND base = 2", []func(*store.Store) error{known, again, remove}},
		"text":     {"UPDATE chunk SET text = 'x' WHERE row >= (SELECT row FROM document WHERE base = 2) << 20", []func(*store.Store) error{document}},
		"document": {"DELETE FROM document WHERE id = 'a' AND base = 2", []func(*store.Store) error{view}},
		"base":     {"UPDATE base SET documents = 7 WHERE id = 'hurt'", []func(*store.Store) error{bases, known, view, again}},
	} {
		dir := t.TempDir()
		s, err := store.Open(t.Context(), dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		create(t, s, "sound", "hurt")
		put(t, s, "sound", doc("a", 1))
		put(t, s, "hurt", doc("a", 1), doc("b", 1))
		closeStore(t, s)
		db, err := sql.Open("sqlite", filepath.Join(dir, "knowledge.db"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), c.hurt); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, store.Options{})
		for i, read := range c.reads {
			var corrupt *store.CorruptError
			if err := read(s); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "hurt") {
				t.Errorf("%s, read %d: %v", name, i, err)
			}
		}
		if got, err := s.Document(t.Context(), "sound", "a"); err != nil || got.ID != "a" {
			t.Errorf("%s: the other base: %v", name, err)
		}
	}
}

// An empty store holds nothing and accepts nothing.
func TestEmpty(t *testing.T) {
	s, err := store.Empty(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	if list, err := s.Bases(t.Context()); len(list) != 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	if err := s.CreateBase(t.Context(), "kb"); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("made a base: %v", err)
	}
}
