package store_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"sidenote/retrieval/knowledge/store"
)

// A segment has the vectors that were put last, and they are deleted with it, also on disk; a
// follower notices each change.
func TestVectorFiles(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store.Store) {
		ctx, files := t.Context(), store.VectorFilesOf(s)
		create(t, s, "kb", "other")
		one, two := putSegment(t, s, "one", []int64{1}), putSegment(t, s, "two", []int64{2})
		has := func(want map[string]string) {
			t.Helper()
			of, err := files.Of(ctx, "kb")
			if err != nil || len(of) != len(want) {
				t.Fatalf("%v, %v; want %v", of, err, want)
			}
			for segment, text := range want {
				if image, err := files.Image(of[segment]); err != nil || string(image) != text || of[segment].Segment != segment {
					t.Errorf("%s: %q, %v; want %q", segment, image, err, text)
				}
			}
		}
		put := func(segment, image string) {
			t.Helper()
			before, _ := s.Version(ctx)
			if _, err := files.Put(ctx, "kb", segment, []byte(image)); err != nil {
				t.Fatal(err)
			}
			if _, changed, err := s.Changes(ctx, before); err != nil || !slices.Equal(changed, []string{"kb"}) {
				t.Errorf("changed: %v, %v", changed, err)
			}
		}
		has(nil)
		put(one.Name, "half")
		put(one.Name, "whole")
		put(two.Name, "second")
		has(map[string]string{one.Name: "whole", two.Name: "second"})
		three := putSegment(t, s, "merged", []int64{1, 2}, one.Name)
		has(map[string]string{two.Name: "second"})
		put(three.Name, "third")
		if err := s.DropSegments(ctx, "kb", two.Name); err != nil {
			t.Fatal(err)
		}
		has(map[string]string{three.Name: "third"})
		for _, base := range []string{"kb", "other", "../kb"} {
			if _, err := files.Put(ctx, base, one.Name, []byte("x")); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a segment that %s does not have: %v", base, err)
			}
		}
		if err := s.DeleteBase(ctx, "kb"); err != nil {
			t.Fatal(err)
		}
		has(nil)
	})
}

// Unreferenced vector files are removed, and damaged ones are not returned.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestVectorFilesOnDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	create(t, s, "kb")
	seg := putSegment(t, s, "image", []int64{1})
	for _, image := range []string{"half", "whole"} {
		if _, err := store.VectorFilesOf(s).Put(t.Context(), "kb", seg.Name, []byte(image)); err != nil {
			t.Fatal(err)
		}
	}
	of, err := store.VectorFilesOf(s).Of(t.Context(), "kb")
	if err != nil {
		t.Fatal(err)
	}
	v := of[seg.Name]
	if left := files(t, filepath.Join(dir, "segments")); len(left) != 2 || left[v.Name] != "whole" || filepath.Dir(v.Path) != filepath.Join(dir, "segments") {
		t.Errorf("%v, and %+v", left, v)
	}
	if view, err := follow(t, dir).View(t.Context(), "kb"); err != nil || len(view.Vectors) != 1 || view.Vectors[seg.Name].Name != v.Name {
		t.Errorf("a view has %v, %v", view.Vectors, err)
	}
	tool(t, dir, "UPDATE segment_vectors SET crc = crc + 1")
	if of, err = store.VectorFilesOf(s).Of(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if image, err := store.VectorFilesOf(s).Image(of[seg.Name]); err == nil {
		t.Errorf("%q is served", image)
	}
	if _, err := store.VectorFilesOf(follow(t, dir)).Put(t.Context(), "kb", seg.Name, nil); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("a follower wrote: %v", err)
	}
	if err := s.DeleteBase(t.Context(), "kb"); err != nil {
		t.Fatal(err)
	}
	if left := files(t, filepath.Join(dir, "segments")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
