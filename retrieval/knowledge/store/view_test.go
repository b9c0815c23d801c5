package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge/store"
)

// A view shows one moment: the base, its segments and the live rows.
func TestView(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	create(t, s, "kb", "other")
	put(t, s, "other", doc("x", 1))
	rows := put(t, s, "kb", doc("b", 1), doc("a", 2), doc("c", 1))
	seg, err := s.PutSegment(t.Context(), "kb", []byte("image"), rows)
	if err != nil {
		t.Fatal(err)
	}
	again := put(t, s, "kb", doc("b", 2))
	v, err := s.View(t.Context(), "kb")
	if err != nil {
		t.Fatal(err)
	}
	base, err := s.Base(t.Context(), "kb")
	if err != nil {
		t.Fatal(err)
	}
	want := store.View{Base: base, Segments: v.Segments, Rows: []int64{rows[1], rows[2], again[0]}, Others: []store.Stamp{
		{Row: rows[1], Hash: doc("a", 2).Hash}, {Row: rows[2], Hash: doc("c", 1).Hash}, {Row: again[0], Hash: doc("b", 2).Hash},
	}}
	if diff := cmp.Diff(want, v, cmp.AllowUnexported(store.Segment{})); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	if len(v.Segments) != 1 || v.Segments[0].Name != seg.Name || !slices.Equal(v.Segments[0].Covers, seg.Covers) {
		t.Errorf("segments %+v, want %+v", v.Segments, seg)
	}
	if _, err := s.View(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no base: %v", err)
	}
}

func TestEntriesAndLookup(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	create(t, s, "kb", "other")
	other := put(t, s, "other", doc("x", 1))
	rows := put(t, s, "kb", doc("b", 1), doc("a", 2), doc("c", 1))
	list, err := s.Entries(t.Context(), "kb", []int64{rows[0], rows[1], other[0], 1 << 40})
	if err != nil || len(list) != 2 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	for i, id := range []string{"a", "b"} {
		want, err := s.Document(t.Context(), "kb", id)
		if diff := cmp.Diff(want, list[i]); diff != "" || err != nil {
			t.Errorf("%v (-document +entry):\n%s", err, diff)
		}
	}
	known, err := s.Lookup(t.Context(), "kb", "c", "x", "none")
	d := doc("c", 1)
	want := map[string]store.Known{"c": {Row: rows[2], ID: "c", Source: d.Source, Size: d.Size, Modified: d.Modified, Mark: d.Mark, Hash: d.Hash}}
	if diff := cmp.Diff(want, known); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := s.Lookup(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no base: %v", err)
	}
}

// Touching a document changes nothing else, including its row.
func TestTouch(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	create(t, s, "kb")
	rows := put(t, s, "kb", doc("a", 1), doc("b", 2))
	want, err := s.Document(t.Context(), "kb", "a")
	if err != nil {
		t.Fatal(err)
	}
	want.Size, want.Modified, want.Mark, want.Hash = 7, time.Unix(3, 4), 6, [32]byte{5}
	err = s.Touch(t.Context(), "kb", []store.Known{{Row: rows[0], Size: 7, Modified: time.Unix(3, 4), Mark: 6, Hash: [32]byte{5}}, {Row: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Document(t.Context(), "kb", "a")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := follow(t, s.Path()[:len(s.Path())-len("/knowledge.db")]).Touch(t.Context(), "kb", nil); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("by a follower: %v", err)
	}
}
