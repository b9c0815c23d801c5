package cache_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sidenote/cache"
	"sidenote/retrieval/filter"
)

// Lists that differ in any element have different keys, and so have a list and the text that it
// prints as, whatever the type of the list.
func TestKeyIsInjectiveInFilterValues(t *testing.T) {
	element := rapid.SampledFrom([]string{"", " ", "a", "b", "a b", "b a", "[a", "b]", `a","b`, "a,b"})
	list := rapid.SliceOfN(element, 0, 4)
	key := func(values any) cache.Key {
		q := question("how long")
		q.Filter = &filter.Filter{Type: filter.Nin, Key: "audience", Value: values}
		return cache.NewKey(cache.Candidates, q)
	}
	set := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	rapid.Check(t, func(t *rapid.T) {
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		anys := make([]any, len(b))
		for i := range b {
			anys[i] = b[i]
		}
		equal := slices.Equal(set(a), set(b))
		if got := key(a) == key(b); got != equal {
			t.Fatalf("%q and %q: same key %v, want %v", a, b, got, equal)
		}
		if got := key(a) == key(anys); got != equal {
			t.Fatalf("%q and %q as []any: same key %v, want %v", a, b, got, equal)
		}
	})
}
