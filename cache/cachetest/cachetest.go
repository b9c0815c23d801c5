// Package cachetest holds the contract tests of cache.Store, and a Store that fails on
// request.
package cachetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sidenote/cache"
)

// Run tests that the Stores that open returns keep the contract of cache.Store. Each
// call of open returns an empty Store with room for a few hundred KiB.
func Run(t *testing.T, open func(t *testing.T) cache.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, cache.Store){
		"absent":     absent,
		"kept":       keptAsItCame,
		"replaced":   replaced,
		"keys":       keysDoNotMeet,
		"no time":    noTime,
		"ended":      endedContext,
		"concurrent": concurrent,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func absent(t *testing.T, s cache.Store) {
	if got, err := s.Get(t.Context(), "nobody set this"); got != nil || err != nil {
		t.Errorf("absent key: got %q, %v, want nil, nil", got, err)
	}
}

func keptAsItCame(t *testing.T, s cache.Store) {
	for name, val := range map[string][]byte{
		"text":   []byte("a value"),
		"bytes":  {0, 255, '\r', '\n', 0},
		"32 KiB": bytes.Repeat([]byte("0123456789abcdef"), 2048),
	} {
		set(t, s, name, val)
		want(t, s, name, val)
		want(t, s, name, val) // reading does not use it up
	}
}

func replaced(t *testing.T, s cache.Store) {
	set(t, s, "k", []byte("first"))
	set(t, s, "k", []byte("second"))
	want(t, s, "k", []byte("second"))
}

func keysDoNotMeet(t *testing.T, s cache.Store) {
	keys := []string{"k", "K", "k ", " k", "k:1", "k:", "k\x00", "k\n", "ключ", strings.Repeat("k", 300)}
	for _, k := range keys {
		set(t, s, k, []byte("of "+k))
	}
	for _, k := range keys {
		want(t, s, k, []byte("of "+k))
	}
}

func noTime(t *testing.T, s cache.Store) {
	for _, ttl := range []time.Duration{0, -time.Second} {
		set(t, s, "k", []byte("old"))
		if err := s.Set(t.Context(), "k", []byte("new"), ttl); err != nil {
			t.Fatalf("set with ttl %v: %v", ttl, err)
		}
		want(t, s, "k", nil)
	}
}

func endedContext(t *testing.T, s cache.Store) {
	set(t, s, "k", []byte("v"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := s.Get(ctx, "k"); err == nil && string(got) != "v" {
		t.Errorf("get under an ended context: got %q without an error", got)
	}
}

func concurrent(t *testing.T, s cache.Store) {
	const writers, keys, rounds = 8, 16, 50
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range rounds {
				key := fmt.Sprint("key ", (w+i)%keys)
				if err := s.Set(t.Context(), key, []byte(key), time.Minute); err != nil {
					t.Errorf("set %q: %v", key, err)
				}
				if got, err := s.Get(t.Context(), key); err != nil || got != nil && string(got) != key {
					t.Errorf("get %q: got %q, %v", key, got, err)
				}
			}
		})
	}
	all.Wait()
}

func set(t *testing.T, s cache.Store, key string, val []byte) {
	t.Helper()
	if err := s.Set(t.Context(), key, val, time.Minute); err != nil {
		t.Fatalf("set %q: %v", key, err)
	}
}

func want(t *testing.T, s cache.Store, key string, val []byte) {
	t.Helper()
	got, err := s.Get(t.Context(), key)
	if err != nil || !bytes.Equal(got, val) || (got == nil) != (val == nil) {
		t.Errorf("get %q: got %d bytes, %v, want %d bytes", key, len(got), err, len(val))
	}
}
