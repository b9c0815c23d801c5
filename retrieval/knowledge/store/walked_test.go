package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/store"
)

// A walk is stored with its base, and deleted with it.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	create(t, s, "kb")
	if w, err := s.Walk(t.Context(), "kb"); err != nil || !w.At.IsZero() || len(w.Sources) > 0 {
		t.Errorf("before: %+v, %v", w, err)
	}
	version, err := s.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := store.Walk{At: time.Unix(7, 8), Sources: []uint64{1, 2, 1 << 63}}
	for range 2 { // the second replaces the first
		if err := s.SetWalk(t.Context(), "kb", store.Walk{At: want.At, Sources: []uint64{1 << 63, 2, 1, 2}}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := follow(t, dir).Walk(t.Context(), "kb"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if now, err := s.Version(t.Context()); err != nil || now != version {
		t.Errorf("version %d, was %d, %v", now, version, err)
	}
	if err := s.DeleteBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Walk(t.Context(), "kb"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("without the base: %v", err)
	}
	create(t, s, "kb")
	if w, err := s.Walk(context.Background(), "kb"); err != nil || !w.At.IsZero() {
		t.Errorf("of the next base: %+v, %v", w, err)
	}
}

// ReadOrigin reverses InPart and Leaving.
func TestOrigins(t *testing.T) {
	const folder = "/docs and more 0123456789abcdef"
	for origin, want := range map[string]struct {
		folder         string
		settled, whole bool
	}{
		"": {"", true, true}, folder: {folder, true, true}, store.InPart(folder): {folder, true, false},
		store.Leaving(folder): {folder, false, false}, store.Unsettled: {"", false, false},
	} {
		if f, settled, whole := store.ReadOrigin(origin); f != want.folder || settled != want.settled || whole != want.whole {
			t.Errorf("%q: %q, %v, %v; want %+v", origin, f, settled, whole, want)
		}
	}
}
