package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval/knowledge/store"
)

func putSegment(t *testing.T, s *store.Store, image string, covers []int64, replaces ...string) store.Segment {
	t.Helper()
	seg, err := s.PutSegment(t.Context(), "kb", []byte(image), covers, replaces...)
	if err != nil {
		t.Fatal(err)
	}
	return seg
}

// Segments list the documents they cover; a document that was written later is not covered.
func TestSegments(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		create(t, s, "kb", "other")
		rows := put(t, s, "kb", doc("a", 1), doc("b", 1), doc("c", 1), doc("d", 1))
		put(t, s, "other", doc("a", 1))
		uncovered := func(want ...int64) {
			t.Helper()
			if _, got, err := segments(ctx, s, "kb"); err != nil || !slices.Equal(got, want) {
				t.Errorf("uncovered %v, %v; want %v", got, err, want)
			}
		}
		uncovered(rows...)
		one := putSegment(t, s, "one", []int64{rows[2], rows[0], rows[2]})
		uncovered(rows[1], rows[3])
		two := putSegment(t, s, "", rows[1:2])
		again := put(t, s, "kb", doc("a", 2))
		uncovered(rows[3], again[0])
		all := putSegment(t, s, "all", append(rows, again...), one.Name, two.Name)
		uncovered()
		got, _, err := segments(ctx, s, "kb")
		if diff := cmp.Diff([]store.Segment{all}, got, cmpopts.IgnoreUnexported(store.Segment{})); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if image, err := s.Image(ctx, got[0]); err != nil || string(image) != "all" {
			t.Errorf("%q, %v", image, err)
		}
		if _, err := s.Image(ctx, one); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the image of a segment that was replaced: %v", err)
		}
		if err := s.DeleteBase(ctx, "kb"); err != nil {
			t.Fatal(err)
		}
		if got, _, err := segments(ctx, s, "kb"); len(got) > 0 || err != nil {
			t.Errorf("%v, %v of a base that is gone", got, err)
		}
	})
}

// A missing or damaged file is reported by name, and does no other harm.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestDamagedSegment(t *testing.T) {
	f := func(name string, damage func(path string) error, want error) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, store.Options{})
			create(t, s, "kb")
			rows := put(t, s, "kb", doc("a", 1))
			seg := putSegment(t, s, "an image", rows)
			if err := damage(seg.Path); err != nil {
				t.Fatal(err)
			}
			_, err := s.Image(t.Context(), seg)
			var bad *store.SegmentError
			if !errors.As(err, &bad) || bad.Base != "kb" || bad.Name != seg.Name || want != nil && !errors.Is(err, want) {
				t.Fatalf("got %v", err)
			}
			if left, err := s.Entries(t.Context(), "kb", rows); err != nil || len(left) != 1 || len(left[0].Chunks) != len(doc("a", 1).Chunks) {
				t.Errorf("%v, %v are left to make another", left, err)
			}
			seg = putSegment(t, s, "an image", rows, bad.Name)
			if image, err := s.Image(t.Context(), seg); err != nil || string(image) != "an image" {
				t.Errorf("%q, %v of the other one", image, err)
			}
		})
	}
	f("missing", os.Remove, fs.ErrNotExist)
	f("cut", func(path string) error { return os.Truncate(path, 3) }, nil)
	f("longer", func(path string) error { return os.Truncate(path, 100) }, nil)
	f("empty", func(path string) error { return os.Truncate(path, 0) }, nil)
	f("flipped", func(path string) error { return os.WriteFile(path, []byte("an Image"), 0o600) }, nil)
}

// Files that belong to no segment are removed by the next writer, if they have one of our names.
func TestOrphans(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "kb")
	seg := putSegment(t, s, "image", nil)
	closeStore(t, s)
	for _, name := range []string{"kb-old.seg", "kb-half.seg.new", "kb-old.vec", "kb-half.vec.new", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, "segments", name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	follow(t, dir)
	if n := len(files(t, filepath.Join(dir, "segments"))); n != 6 {
		t.Errorf("a follower left %d files", n)
	}
	open(t, dir, store.Options{})
	want := map[string]string{seg.Name: "image", "notes.txt": "x"}
	if diff := cmp.Diff(want, files(t, filepath.Join(dir, "segments"))); diff != "" {
		t.Error(diff)
	}
}
