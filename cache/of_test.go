package cache_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
)

// wordLists returns a cache of another type than results, whose near tier keeps nothing.
func wordLists(tiers ...cache.Tier) *cache.Tiered[[]string] {
	return &cache.Tiered[[]string]{
		Kind: "words", Tiers: append([]cache.Tier{{Name: "none", Store: &ttls{}}}, tiers...),
		Encode: func(k cache.Key, words []string) []byte { return cache.Seal(k, []byte(strings.Join(words, " "))) },
		Decode: func(k cache.Key, value []byte) ([]string, error) {
			body, err := cache.Body(k, value)
			return strings.Fields(string(body)), err
		},
		Empty: func(words []string) bool { return len(words) == 0 },
	}
}

// Values of any type are found again, unless they are not whole or the search failed; a panic is
// such a failure.
func TestOf(t *testing.T) {
	type found struct {
		whole, panics bool
		err           error
	}
	for name, c := range map[string]struct {
		first found
		hit   bool
	}{
		"whole":  {found{whole: true}, true},
		"part":   {found{}, false},
		"error":  {found{whole: true, err: errors.New("down")}, false},
		"panics": {found{panics: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			words := wordLists(cache.Tier{Name: "far", Store: memory(t, 1<<20), TTL: time.Minute})
			ask := func(f found) cache.Found[[]string] {
				var l cache.Lookup[[]string]
				if _, hit := words.Decoded(t.Context(), "acme", []byte("id"), &l); hit {
					t.Error("a hit in a store that keeps nothing")
				}
				got, landed := words.Load(t.Context(), []byte("id"), l, cache.Search[[]string]{Find: func(context.Context) ([]string, bool, error) {
					if f.panics {
						panic("index out of range")
					}
					return []string{"a", "b"}, f.whole, f.err
				}})
				if !landed {
					t.Error("not waited for")
				}
				return got
			}
			if got := ask(c.first); got.Hit || (got.Err != nil) != (c.first.panics || c.first.err != nil) {
				t.Errorf("first: %+v", got)
			}
			if got := ask(found{}); got.Hit != c.hit || strings.Join(got.Value, " ") != "a b" || got.Err != nil {
				t.Errorf("second: %+v", got)
			}
		})
	}
}
