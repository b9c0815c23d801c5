package store_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval/knowledge/store"
)

// keyed returns the key of a name, and a vector of some bytes.
func keyed(name string) (store.VectorKey, []byte) {
	key := sha256.Sum256([]byte(name))
	return key, []byte(strings.Repeat(name, 20)[:20])
}

func vectors(names ...string) map[store.VectorKey][]byte {
	out := map[store.VectorKey][]byte{}
	for _, name := range names {
		key, value := keyed(name)
		out[key] = value
	}
	return out
}

func keys(names ...string) iter.Seq[store.VectorKey] {
	return maps.Keys(vectors(names...))
}

// has checks which of the vectors a to e are stored.
func has(t *testing.T, s *store.Store, want string) {
	t.Helper()
	got := ""
	found, err := store.VectorsOf(s).Get(t.Context(), slices.Collect(keys("a", "b", "c", "d", "e"))...)
	for _, name := range strings.Split("abcde", "") {
		key, value := keyed(name)
		if v, ok := found[key]; ok && string(v) == string(value) {
			got += name
		}
	}
	if got != want || len(found) != len(want) || err != nil {
		t.Errorf("%q are there (%d), %v; want %q", got, len(found), err, want)
	}
}

// Vectors are available as soon as they are put, also for followers and after a restart; a damaged
// one is not.
//
// Row K3 of deploy/CONTRIBUTING.md.
func TestVectors(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	s := open(t, dir, store.Options{})
	follower := follow(t, dir)
	has(t, s, "")
	for _, names := range [][]string{{"a", "b"}, {"b", "c"}} {
		if err := store.VectorsOf(s).Put(t.Context(), "minilm", vectors(names...), 100, now); err != nil {
			t.Fatal(err)
		}
	}
	has(t, s, "abc")
	has(t, follower, "abc")
	if err := store.VectorsOf(follower).Put(t.Context(), "minilm", vectors("d"), 1, now); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("a follower wrote: %v", err)
	}
	key, _ := keyed("b")
	tool(t, dir, fmt.Sprintf("UPDATE vector SET value = x'00' WHERE key = x'%x'", key))
	has(t, s, "ac")
	if err := store.VectorsOf(s).Put(t.Context(), "minilm", vectors("b"), 100, now); err != nil {
		t.Fatal(err)
	}
	has(t, s, "abc")
	if n := tool(t, dir, "SELECT count(*) FROM vector"); n != 3 {
		t.Errorf("%d are kept", n)
	}
	for at, want := range map[time.Time]int{now: 300, now.Add(-48 * time.Hour): 0} {
		if n, err := store.VectorsOf(s).Spent(t.Context(), at); n != want || err != nil {
			t.Errorf("%v: %d tokens, %v; want %d", at, n, err, want)
		}
	}
}

// All vectors of a space have one size; a write with another size is rejected completely.
func TestVectorSizes(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	put := func(space string, v map[store.VectorKey][]byte) error {
		return store.VectorsOf(s).Put(t.Context(), space, v, 1, time.Now())
	}
	if err := put("one", vectors("a")); err != nil {
		t.Fatal(err)
	}
	other := vectors("b", "c")
	key, _ := keyed("c")
	other[key] = []byte("longer than the other ones")
	wrong := (*store.VectorSizeError)(nil)
	if err := put("one", other); !errors.As(err, &wrong) || *wrong != (store.VectorSizeError{Got: 26, Want: 20}) {
		t.Errorf("%v", err)
	}
	has(t, s, "a")
	delete(other, key)
	if err := errors.Join(put("one", other), put("two", map[store.VectorKey][]byte{key: []byte("short")})); err != nil {
		t.Error(err)
	}
	for space, want := range map[string]int{"one": 20, "two": 5, "three": 0} {
		if n, err := store.VectorsOf(s).Size(t.Context(), space); n != want || err != nil {
			t.Errorf("%s: %d bytes, %v; want %d", space, n, err, want)
		}
	}
}

// A vector that no base uses is kept for at least thirty days, but not forever; one that is used
// stays.
func TestUnusedVectorsGo(t *testing.T) {
	dir, start := t.TempDir(), time.Now()
	s := open(t, dir, store.Options{})
	create(t, s, "kb", "other")
	v := store.VectorsOf(s)
	if err := v.Put(t.Context(), "minilm", vectors("a", "b", "c"), 1, start); err != nil {
		t.Fatal(err)
	}
	day := func(n int) time.Time { return start.Add(time.Duration(n) * 24 * time.Hour) }
	use := func(at time.Time, base string, names ...string) {
		t.Helper()
		if err := v.Use(t.Context(), base, keys(names...), at); err != nil {
			t.Fatal(err)
		}
	}
	forget := func(at time.Time, want int) {
		t.Helper()
		if n, err := v.Forget(t.Context(), at); n != want || err != nil {
			t.Errorf("%d were forgotten, %v; want %d", n, err, want)
		}
	}
	use(day(0), "kb", "a", "b") // a is used from here on by kb, b for a while, c never
	for n := 1; n <= 30; n++ {
		use(day(n), "kb", "a", "unknown")
		use(day(n), "other")
		forget(day(n), 0)
	}
	has(t, s, "abc")
	use(day(31), "other", "b")
	use(day(40), "other", "b")
	forget(day(41), 1)
	has(t, s, "ab")
	use(day(90), "kb", "a")
	forget(day(91), 1)
	has(t, s, "a")
	if n := tool(t, dir, "SELECT count(*) FROM vector_use"); n != 1 {
		t.Errorf("%d uses are noted", n)
	}
	walked := false
	unused := func(func(store.VectorKey) bool) { walked = true }
	if err := v.Use(t.Context(), "kb", unused, day(95)); err != nil || walked {
		t.Errorf("%v, noted again after five days: %v", err, walked)
	}
	if err := v.Use(t.Context(), "none", unused, day(95)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no base: %v", err)
	}
}
