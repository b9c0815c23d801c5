package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/store"
)

// Remarks are stored with their base, and deleted with it.
func TestRemarks(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store.Store) {
		create(t, s, "kb", "other")
		a := store.Remark{Source: "a", Size: 1, Modified: time.Unix(0, 7), Mark: -3, Reader: []byte("r\x00"), Documents: 2, Text: "said \x00"}
		b := store.Remark{Source: "b", Reader: []byte("s")}
		set := func(forget []string, remarks ...store.Remark) {
			t.Helper()
			if err := s.SetRemarks(t.Context(), "kb", remarks, forget); err != nil {
				t.Fatal(err)
			}
		}
		check := func(base string, want ...store.Remark) {
			t.Helper()
			if got, err := s.Remarks(t.Context(), base); err != nil || !cmp.Equal(got, want) {
				t.Errorf("%s: %+v, %v; want %+v", base, got, err, want)
			}
		}
		version, err := s.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check("kb")
		set(nil, a, b)
		check("kb", a, b)
		a.Text = "something else"
		set([]string{"b", "never there"}, a)
		check("kb", a)
		check("other")
		if now, err := s.Version(t.Context()); err != nil || now != version {
			t.Errorf("version %d, was %d, %v", now, version, err)
		}
		if err := s.DeleteBase(t.Context(), "kb"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Remarks(t.Context(), "kb"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("without the base: %v", err)
		}
		create(t, s, "kb")
		check("kb")
	})
}
