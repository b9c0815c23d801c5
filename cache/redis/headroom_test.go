package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// On a server that does not evict keys the cache stops writing while there is memory left for
// budgets, however it is filled, reports that, and resumes when there is more memory.
func TestCacheLeavesMemoryForBudgets(t *testing.T) {
	for name, size := range map[string]int{"small values": 500, "large values": 100_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, told := redistest.Start(t, "--maxmemory", "20mb", "--maxmemory-policy", "noeviction"), &log{}
			o := told.attach(redis.Options{URL: server.URL(), Timeout: patient, Reserved: func() bool { return true }})
			cached, other := working(t, o), working(t, o) // of two replicas
			l := ledger(t, open(t, redis.Options{URL: server.URL(), Timeout: patient}), nil)
			if testing.Short() {
				size = max(size, 2000) // fewer of them fill the memory
			}
			value := []byte(strings.Repeat("x", size))
			written := 0
			for i := range 40 << 20 / size {
				for _, s := range []*redis.Store{cached, other} {
					err := s.Set(t.Context(), fmt.Sprint("key:", i), value, time.Hour)
					if err == nil {
						written += size
					} else if !errors.Is(err, cache.ErrSkipped) {
						t.Fatalf("after %d bytes: %v", written, err)
					}
				}
			}
			if written < 4<<20 {
				t.Errorf("%d bytes of 20 MiB were written", written)
			}
			if kinds := told.kinds(); kinds[len(kinds)-1] != redis.Memory {
				t.Errorf("the last write is counted as %q", kinds[len(kinds)-1])
			}
			line := "redis " + server.Addr() + ": its memory is nearly full, and budgets need the rest; what it holds is read, nothing new is kept"
			await(t, "the line", func() bool { return strings.Contains(strings.Join(told.told(), "\n"), "+"+line) })
			asks(t, l, "r1:1", 5, tokensADay)
			for i := range 500 {
				if d, err := l.Reserve(t.Context(), tokensOf(fmt.Sprint("tenant-", i), "r1:1", 1, tokensADay)); err != nil || !d.Granted {
					t.Fatalf("tenant %d: %+v, %v", i, d, err)
				}
			}
			server.Do("CONFIG", "SET", "maxmemory", "60mb")
			await(t, "a write", func() bool { return cached.Set(t.Context(), "again", value, time.Hour) == nil })
			await(t, "its end", func() bool { return strings.Contains(strings.Join(told.told(), "\n"), "-"+line) })
		})
	}
}

// All memory is used if the server evicts, or if nobody needs its memory.
func TestCacheUsesAllMemory(t *testing.T) {
	needed := func() bool { return true }
	for name, c := range map[string]struct {
		policy   string
		reserved func() bool
		full     bool
	}{
		"evicts":      {"allkeys-lru", needed, false},
		"not limited": {"noeviction", func() bool { return false }, true},
		"nobody":      {"noeviction", nil, true},
	} {
		server := redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", c.policy)
		s := working(t, redis.Options{URL: server.URL(), Timeout: patient, Reserved: c.reserved})
		full, value := false, []byte(strings.Repeat("x", 50_000))
		for i := range 200 {
			err := s.Set(t.Context(), fmt.Sprint(i), value, time.Hour)
			if errors.Is(err, cache.ErrSkipped) {
				t.Fatalf("%s: %d: %v", name, i, err)
			}
			full = full || err != nil
		}
		if full != c.full {
			t.Errorf("%s: full %v, want %v", name, full, c.full)
		}
	}
}
