package store_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval/knowledge/store"
)

var ignoreTime = cmpopts.IgnoreFields(store.Base{}, "Version", "Changed")

// eachStore runs a test on disk and in memory.
func eachStore(t *testing.T, f func(t *testing.T, s *store.Store)) {
	t.Run("disk", func(t *testing.T) { f(t, open(t, t.TempDir(), store.Options{})) })
	t.Run("memory", func(t *testing.T) { f(t, open(t, store.Memory, store.Options{})) })
}

func TestDocuments(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store.Store) {
		create(t, s, "handbook", "other")
		bare := store.Document{ID: "bare"}
		odd := store.Document{ID: "odd\x00id", Name: "\xff", Chunks: []store.Chunk{{Text: "nul \x00 and \xff\xfe"}, {}}}
		rows := put(t, s, "handbook", doc("b", 1), doc("a", 2), bare, odd)
		put(t, s, "other", doc("a", 5))
		again := put(t, s, "handbook", doc("b", 3))
		if again[0] <= slices.Max(rows) {
			t.Errorf("row %d was given again after %v", again, rows)
		}
		for _, want := range []store.Document{doc("a", 2), doc("b", 3), bare, odd} {
			got, err := s.Document(t.Context(), "handbook", want.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.Document); diff != "" {
				t.Errorf("%q: %s", want.ID, diff)
			}
		}
		base, err := s.Base(t.Context(), "handbook")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(total("handbook", doc("a", 2), doc("b", 3), bare, odd), base, ignoreTime); diff != "" {
			t.Error(diff)
		}
		if err := s.Delete(t.Context(), "handbook", "bare", odd.ID, "never there"); err != nil {
			t.Fatal(err)
		}
		bases, err := s.Bases(t.Context())
		want := []store.Base{total("handbook", doc("a", 2), doc("b", 3)), total("other", doc("a", 5))}
		if diff := cmp.Diff(want, bases, ignoreTime); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}

// Lists and iterations are sorted by id and paged, and allow writes meanwhile.
func TestWalks(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store.Store) {
		create(t, s, "big", "small")
		put(t, s, "big", wide("d", 700, 4)...)
		put(t, s, "small", wide("d", 3, 1)...)
		var ids []string
		for after := ""; ; {
			page, err := s.Documents(t.Context(), "big", after, 300)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				if e.ChunkCount != 4 || e.Chunks != nil {
					t.Fatalf("%s has %d chunks and %d of them in a list", e.ID, e.ChunkCount, len(e.Chunks))
				}
				ids = append(ids, e.ID)
			}
			after = ids[len(ids)-1]
		}
		var known []string
		for k, err := range s.Known(t.Context(), "big") {
			if err != nil {
				t.Fatal(err)
			}
			known = append(known, k.ID)
			if len(known)%100 == 0 {
				put(t, s, "small", doc(k.ID, 1))
			}
		}
		if len(ids) != 700 || !slices.IsSorted(ids) || !slices.Equal(ids, known) {
			t.Errorf("%d and %d documents, or not in order", len(ids), len(known))
		}
	})
}

// Each transaction increases the version, and Changes lists the bases it changed.
func TestChanges(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store.Store) {
		ctx, last := t.Context(), int64(0)
		f := func(what string, err error, want ...string) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			v, bases, err := s.Changes(ctx, last)
			if err != nil || !slices.Equal(bases, want) || (v > last) != (len(want) > 0) {
				t.Errorf("%s: from %d to %d: %v, %v; want %v", what, last, v, bases, err, want)
			}
			last = v
		}
		f("create", s.CreateBase(ctx, "a"), "a")
		f("create again", s.CreateBase(ctx, "a"))
		f("create", s.CreateBase(ctx, "b"), "b")
		_, err := s.Put(ctx, "a", []store.Document{doc("x", 1)})
		f("put", err, "a")
		seg, err := s.PutSegment(ctx, "a", []byte("image"), []int64{1})
		f("segment", err, "a")
		f("drop", s.DropSegments(ctx, "a", seg.Name), "a")
		f("delete nothing", s.Delete(ctx, "a", "y"))
		f("delete", s.Delete(ctx, "a", "x"), "a")
		f("delete base", s.DeleteBase(ctx, "a"), "a")
		f("nothing", nil)
		if _, bases, err := s.Changes(ctx, 0); err != nil || !slices.Equal(bases, []string{"a", "b"}) {
			t.Errorf("in all: %v, %v", bases, err)
		}
	})
}

// Rejected documents are named, and nothing is changed.
func TestRefused(t *testing.T) {
	with := func(key string, v any) store.Document {
		d := doc("x", 7)
		d.Attributes = map[string]any{key: v}
		return d
	}
	tokens := doc("x", 7)
	tokens.Chunks[1].Tokens = map[string]int{"o 200k": 1}
	eachStore(t, func(t *testing.T, s *store.Store) {
		create(t, s, "kb")
		put(t, s, "kb", doc("x", 1))
		f := func(want string, docs ...store.Document) {
			t.Helper()
			_, err := s.Put(t.Context(), "kb", append([]store.Document{doc("y", 1)}, docs...))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		f(`document "x": attribute "score": NaN is not a number`, with("score", math.NaN()))
		f(`document "x": attribute "score": -Inf is not`, with("score", math.Inf(-1)))
		f(`document "x": attribute "tags": ["a",1] is a list with a number in it`, with("tags", []any{"a", 1.0}))
		f(`document "x": attribute "deep": {"a":1} is an object, which is neither`, with("deep", map[string]any{"a": 1}))
		f(`attribute "none": null is null, which is neither`, with("none", nil))
		f(`attribute "big": 9007199254740993 does not fit`, with("big", 1<<53+1))
		f(`attribute "raw": "\xff" is not UTF-8`, with("raw", "\xff"))
		f(`attribute "raw": list: "\xff" is not UTF-8`, with("raw", []string{"a", "\xff"}))
		f(`attribute "\xff": its name is not UTF-8`, with("\xff", 1))
		f(`attribute "": it has no name`, with("", 1))
		f(`its name is longer than 256 bytes`, with(strings.Repeat("k", 257), 1))
		f(`attribute "long": "aaaaaaaaaa…" is longer than 1024 bytes`, with("long", strings.Repeat("a", 1025)))
		f(`attribute "many": is a list of more than 1024 strings`, with("many", make([]string, 1025)))
		f(`document "x": 65 attributes, more than 64`, crowded(65))
		f(`document "x" comes twice`, doc("x", 7), doc("x", 8))
		f(`document 2 of 2 has no id`, store.Document{})
		f(`document "x": chunk 1: 1 tokens of encoding "o 200k"`, tokens)
		for _, id := range []string{"", "A", "a/b", "ü", strings.Repeat("a", 65), "a\n"} {
			if err := s.CreateBase(t.Context(), id); err == nil {
				t.Errorf("base %q was made", id)
			}
		}
		base, err := s.Base(t.Context(), "kb")
		if diff := cmp.Diff(total("kb", doc("x", 1)), base, ignoreTime); diff != "" || err != nil {
			t.Error(diff, err)
		}
		put(t, s, "kb", with("list", []any{}), with2("n", 12))
		put(t, s, "kb", crowded(64))
	})
}

// crowded returns a document with a number of attributes.
func crowded(n int) store.Document {
	d := store.Document{ID: "x", Attributes: map[string]any{}}
	for i := range n {
		d.Attributes[strings.Repeat("k", i+1)] = strings.Repeat("v", 1024)
	}
	return d
}

func with2(key string, v any) store.Document {
	return store.Document{ID: "z", Attributes: map[string]any{key: v}}
}

func TestNotFound(t *testing.T) {
	eachStore(t, func(t *testing.T, s *store.Store) {
		ctx := t.Context()
		create(t, s, "kb", "kb2")
		seg, err := s.PutSegment(ctx, "kb2", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_, err = s.Base(ctx, "none")
		f("base", err)
		f("delete base", s.DeleteBase(ctx, "none"))
		_, err = s.Put(ctx, "none", []store.Document{doc("x", 1)})
		f("put", err)
		f("delete", s.Delete(ctx, "none", "x"))
		_, err = s.Document(ctx, "kb", "x")
		f("document", err)
		_, err = s.Documents(ctx, "none", "", 10)
		f("documents", err)
		for _, err = range s.Known(ctx, "none") {
			f("known", err)
		}
		_, err = s.PutSegment(ctx, "none", nil, nil)
		f("segment", err)
		_, err = s.PutSegment(ctx, "kb", nil, nil, seg.Name)
		f("segment of another base", err)
		f("drop segment of another base", s.DropSegments(ctx, "kb", seg.Name))
	})
}

// Cancelling the context cancels a write completely, also while it waits for its turn.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := open(t, t.TempDir(), store.Before(store.Options{}, func(step string) {
		if step == "insert chunks" {
			cancel()
		}
	}))
	create(t, s, "kb")
	if _, err := s.Put(ctx, "kb", []store.Document{doc("x", 1), doc("y", 1)}); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	if err := s.Delete(ctx, "kb", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("delete: %v", err)
	}
	if _, err := s.Bases(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("bases: %v", err)
	}
	if known := all(t, s.Known(t.Context(), "kb")); len(known) > 0 {
		t.Errorf("afterwards %v is there", known)
	}
	if v, err := s.Version(t.Context()); v != 1 || err != nil {
		t.Errorf("afterwards version %d, %v", v, err)
	}
}
