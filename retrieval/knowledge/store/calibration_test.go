package store_test

import (
	"errors"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// Calibration returns what was stored last, and nothing if it is damaged; it is deleted with the
// base.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestCalibration(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	create(t, s, "kb", "other")
	follower := follow(t, dir)
	check := func(base, want string) {
		t.Helper()
		for _, s := range []*store.Store{s, follower} {
			if got, err := s.Calibration(t.Context(), base); string(got) != want || err != nil {
				t.Errorf("%s: %q, %v; want %q", base, got, err, want)
			}
		}
	}
	check("kb", "")
	for _, state := range []string{"one", "two"} {
		if err := s.SetCalibration(t.Context(), "kb", []byte(state)); err != nil {
			t.Fatal(err)
		}
		check("kb", state)
	}
	check("other", "")
	tool(t, dir, "UPDATE calibration SET state = x'00'")
	check("kb", "")
	if err := s.DeleteBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if n := tool(t, dir, "SELECT count(*) FROM calibration"); n != 0 {
		t.Errorf("%d are left", n)
	}
	if err := s.SetCalibration(t.Context(), "kb", nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no base: %v", err)
	}
	if _, err := s.Calibration(t.Context(), "kb"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no base: %v", err)
	}
}
