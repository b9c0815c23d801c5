package store_test

import (
	"context"
	"errors"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// Calibration and Verdicts return what was stored last, and nothing if it is damaged; it is deleted
// with the base.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestCalibration(t *testing.T) {
	for table, kind := range map[string]struct {
		get func(*store.Store, context.Context, string) ([]byte, error)
		set func(*store.Store, context.Context, string, []byte) error
	}{
		"calibration": {(*store.Store).Calibration, (*store.Store).SetCalibration},
		"verdicts":    {(*store.Store).Verdicts, (*store.Store).SetVerdicts},
	} {
		dir := t.TempDir()
		s := open(t, dir, store.Options{})
		create(t, s, "kb", "other")
		follower := follow(t, dir)
		check := func(base, want string) {
			t.Helper()
			for _, s := range []*store.Store{s, follower} {
				if got, err := kind.get(s, t.Context(), base); string(got) != want || err != nil {
					t.Errorf("%s of %s: %q, %v; want %q", table, base, got, err, want)
				}
			}
		}
		check("kb", "")
		for _, state := range []string{"one", "two"} {
			if err := kind.set(s, t.Context(), "kb", []byte(state)); err != nil {
				t.Fatal(err)
			}
			check("kb", state)
		}
		check("other", "")
		tool(t, dir, "UPDATE "+table+" SET state = x'00'")
		check("kb", "")
		if err := s.DeleteBase(t.Context(), "kb"); err != nil {
			t.Fatal(err)
		}
		if n := tool(t, dir, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%s: %d are left", table, n)
		}
		if err := kind.set(s, t.Context(), "kb", nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: no base: %v", table, err)
		}
		if _, err := kind.get(s, t.Context(), "kb"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: no base: %v", table, err)
		}
	}
}
