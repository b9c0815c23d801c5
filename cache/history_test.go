package cache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
)

// A slow tier answers each call after a time, or when its context ends.
type slow struct{ time.Duration }

func (s slow) Get(ctx context.Context, _ string) ([]byte, error) {
	select {
	case <-time.After(s.Duration):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s slow) Set(ctx context.Context, key string, _ []byte, _ time.Duration) error {
	_, err := s.Get(ctx, key)
	return err
}

// However many turns are looked up, a request waits no longer than for one.
func TestHistoryWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 50 * time.Millisecond
		h := cache.NewHistory[string](cache.Given, []cache.Tier{{Name: "far", Store: slow{wait * 3 / 5}, TTL: time.Hour, EmptyTTL: time.Hour, Wait: wait}}, nil)
		began := time.Now()
		h.Each(t.Context(), "acme", "", make([]string, 16), func(i int, v string) bool {
			t.Errorf("turn %d is %q", i, v)
			return true
		})
		if took := time.Since(began); took != wait {
			t.Errorf("it took %v, want %v", took, wait)
		}
	})
}
