package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/cache/cachetest"
)

// A writer is a Store with its own Set.
type writer struct {
	cache.Store
	set func(ctx context.Context, key string, val []byte, ttl time.Duration) error
}

func (w writer) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	return w.set(ctx, key, val, ttl)
}

// writeBehind returns a WriteBehind whose writes call set. It is closed at the end of the test.
func writeBehind(t testing.TB, set func(context.Context, string, []byte, time.Duration) error) *cache.WriteBehind {
	b := cache.NewWriteBehind(writer{set: set})
	t.Cleanup(func() { _ = b.Close(ended()) })
	return b
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A syncStore is a Store whose Set returns when its WriteBehind has written the value, as the
// contract tests expect.
type syncStore struct {
	*cache.WriteBehind
	turn    sync.Mutex // one at a time, so that each Set is a write
	written chan struct{}
}

func (p *syncStore) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.WriteBehind.Set(ctx, key, val, ttl); err != nil {
		return err
	}
	<-p.written
	return nil
}

func TestWriteBehind(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store {
		m, written := memory(t, 4<<20), make(chan struct{})
		b := cache.NewWriteBehind(writer{m, func(ctx context.Context, key string, val []byte, ttl time.Duration) error {
			defer func() { written <- struct{}{} }()
			return m.Set(ctx, key, val, ttl)
		}})
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		return &syncStore{WriteBehind: b, written: written}
	})
}

// offer sets key to val and reports whether it was accepted.
func offer(t testing.TB, b *cache.WriteBehind, key, val string) bool {
	t.Helper()
	err := b.Set(ended(), key, []byte(val), time.Minute)
	if err != nil && !errors.Is(err, cache.ErrDropped) {
		t.Errorf("set %q: %v", key, err)
	}
	return err == nil
}

// Set does not block while writes hang. These end when their time is up, whatever the context of
// Set, and then the next one of the same key begins.
func TestWriteBehindHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ends := make(chan time.Duration, 3)
		b := writeBehind(t, func(ctx context.Context, _ string, _ []byte, _ time.Duration) error {
			<-ctx.Done()
			ends <- time.Since(start)
			return ctx.Err()
		})
		for range cap(ends) {
			offer(t, b, "k", "v")
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("took %v", took)
		}
		for _, want := range []time.Duration{1, 2, 3} {
			if got := <-ends; got != want*time.Second {
				t.Errorf("a write ended after %v, want %ds", got, want)
			}
		}
	})
}

// Writes that do not fit are dropped; when a write has ended, there is room again.
func TestWriteBehindBounds(t *testing.T) {
	for name, size := range map[string]int{"entries": 1, "bytes": 5 << 20} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan error)
				b := writeBehind(t, func(ctx context.Context, _ string, _ []byte, _ time.Duration) error {
					select {
					case err := <-end:
						return err
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				val := string(make([]byte, size))
				want := map[string]int{"entries": 512, "bytes": 3}[name]
				offer(t, b, "k", val)
				synctest.Wait() // it is running, so it is not queued
				waiting := 0
				for offer(t, b, "k", val) {
					waiting++
				}
				if waiting != want {
					t.Errorf("%d wait, want %d", waiting, want)
				}
				end <- errors.New("down")
				synctest.Wait()
				if !offer(t, b, "k", val) || offer(t, b, "k", val) {
					t.Error("want room for one more")
				}
			})
		})
	}
}

// Close continues to write while its context lasts. Then it drops and cancels.
func TestWriteBehindClose(t *testing.T) {
	for name, c := range map[string]struct {
		patience, took time.Duration
		written        int
	}{
		"in time":  {time.Minute, 4 * time.Second, 5},
		"too late": {2 * time.Second, 2 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var made tally
				b := writeBehind(t, func(ctx context.Context, key string, _ []byte, _ time.Duration) error {
					if made.add(key) == 1 {
						panic("one write is lost, and no more")
					}
					select {
					case <-time.After(800 * time.Millisecond):
						made.add("done")
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				for range 6 {
					offer(t, b, "k", "v")
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				for range 2 { // the second call has nothing to do
					err := b.Close(ctx)
					if late := c.written < 5; errors.Is(err, context.DeadlineExceeded) != late || !late && err != nil || time.Since(start) != c.took {
						t.Errorf("got %v after %v", err, time.Since(start))
					}
				}
				if offer(t, b, "later", "v") || made.counts["done"] != c.written {
					t.Errorf("%d written, want %d", made.counts["done"], c.written)
				}
			})
		})
	}
}

// However many goroutines set keys, the values of each are written in order, one at a time, and
// the last accepted one stays.
func TestWriteBehindOrder(t *testing.T) {
	const setters, keys, rounds = 8, 5, 2000
	var offered, taken, written [keys]int
	var offering, writing [keys]sync.Mutex
	b := writeBehind(t, func(_ context.Context, key string, val []byte, _ time.Duration) error {
		k, _ := strconv.Atoi(key)
		n, _ := strconv.Atoi(string(val))
		if !writing[k].TryLock() {
			t.Error("another write runs")
			return nil
		}
		defer writing[k].Unlock()
		if n <= written[k] {
			t.Errorf("key %d: %d is written after %d", k, n, written[k])
		}
		written[k] = n
		return nil
	})
	var all sync.WaitGroup
	for s := range setters {
		all.Go(func() {
			for i := range rounds {
				k := (s + i) % keys
				offering[k].Lock()
				offered[k]++
				if offer(t, b, strconv.Itoa(k), strconv.Itoa(offered[k])) {
					taken[k] = offered[k]
				}
				offering[k].Unlock()
			}
		})
	}
	all.Wait()
	if err := b.Close(t.Context()); err != nil || taken != written {
		t.Errorf("%v stay, want %v; %v", written, taken, err)
	}
}

func BenchmarkWriteBehindSet(b *testing.B) {
	var keys [1000]string
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	s := writeBehind(b, func(context.Context, string, []byte, time.Duration) error { return nil })
	val := make([]byte, 10000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = s.Set(b.Context(), keys[i%len(keys)], val, time.Hour)
	}
}
