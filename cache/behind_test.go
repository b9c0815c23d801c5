package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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

// A syncStore is a Store whose Set returns when its Behind has written the value, as the
// contract tests expect.
type syncStore struct {
	*cache.Behind
	turn    sync.Mutex // one by one, so that each Set is a write
	written chan struct{}
}

func (p *syncStore) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	if err := p.Behind.Set(ctx, key, val, ttl); err != nil {
		return err
	}
	<-p.written
	return nil
}

func TestBehind(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) cache.Store {
		m, written := memory(t, 4<<20), make(chan struct{})
		b := cache.NewBehind(writer{m, func(ctx context.Context, key string, val []byte, ttl time.Duration) error {
			defer func() { written <- struct{}{} }()
			return m.Set(ctx, key, val, ttl)
		}}, cache.BehindOptions{Failed: func(key string, err error) { t.Errorf("%q: %v", key, err) }})
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		return &syncStore{Behind: b, written: written}
	})
}

var errPanic = errors.New("to be panicked with")

// A hangingStore holds each write until the test ends it, or its context ends.
type hangingStore struct {
	mu      sync.Mutex
	open    []*hangingWrite
	written []string // "key=value"
}

// A hangingWrite is one of them.
type hangingWrite struct {
	key, val string
	end      chan error
}

func (d *hangingStore) take(ctx context.Context, key string, val []byte, _ time.Duration) error {
	h := &hangingWrite{key, string(val), make(chan error, 1)}
	d.mu.Lock()
	d.open = append(d.open, h)
	d.mu.Unlock()
	var err error
	select {
	case err = <-h.end:
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(o *hangingWrite) bool { return o == h })
	if errors.Is(err, errPanic) {
		panic(err)
	}
	if err == nil {
		d.written = append(d.written, key+"="+string(val))
	}
	return err
}

// hanging waits until all goroutines are blocked and returns the writes that hang.
func (d *hangingStore) hanging() []*hangingWrite {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.open)
}

// failures counts what a Behind could not write.
type failures struct {
	sync.Mutex
	all, dropped int
}

func (f *failures) add(_ string, err error) {
	f.Lock()
	defer f.Unlock()
	f.all++
	if errors.Is(err, cache.ErrBehind) {
		f.dropped++
	}
}

// offer sets key to val and tells whether it was taken.
func offer(t testing.TB, b *cache.Behind, key, val string) bool {
	t.Helper()
	err := b.Set(t.Context(), key, []byte(val), time.Minute)
	if err != nil && !errors.Is(err, cache.ErrBehind) {
		t.Errorf("set %q: %v", key, err)
	}
	return err == nil
}

// Set does not wait while writes hang; these end when their time is up, whatever the
// context of Set. Nothing runs afterwards even without a Close, or the bubble would not
// end.
func TestBehindHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d hangingStore
		start := time.Now()
		ended := make(chan time.Duration, 5)
		b := cache.NewBehind(writer{set: d.take}, cache.BehindOptions{Failed: func(key string, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", key, err)
			}
			ended <- time.Since(start)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		for i := range cap(ended) {
			if err := b.Set(ctx, strconv.Itoa(i), []byte("v"), time.Minute); err != nil {
				t.Error(err)
			}
		}
		cancel()
		if got := len(d.hanging()); got != 2 || b.Pending() != 5 || time.Since(start) != 0 {
			t.Errorf("%d run, %d pending, after %v; want 2, 5, at once", got, b.Pending(), time.Since(start))
		}
		for _, want := range []time.Duration{1, 1, 2, 2, 3} {
			if got := <-ended; got != want*time.Second {
				t.Errorf("a write ended after %v, want %ds", got, want)
			}
		}
	})
}

// While a write of a key runs, the last one that comes is written next; and a key that
// is set all the time does not delay the others.
func TestBehindLaterValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d hangingStore
		b := cache.NewBehind(writer{set: d.take}, cache.BehindOptions{Entries: 2, Writers: 1})
		offer(t, b, "k", "0")
		d.hanging()
		for i := range 10 {
			offer(t, b, "k", strconv.Itoa(i+1)) // in the place of the one before
		}
		if !offer(t, b, "other", "v") || offer(t, b, "third", "v") {
			t.Error("two writes may wait")
		}
		for hanging := d.hanging(); len(hanging) > 0; hanging = d.hanging() {
			hanging[0].end <- nil
		}
		if diff := cmp.Diff([]string{"k=0", "other=v", "k=10"}, d.written); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// Close writes while its context lasts. Then it drops, cancels and reports.
func TestBehindClose(t *testing.T) {
	for name, c := range map[string]struct {
		patience, took   time.Duration
		written, dropped int
	}{
		"in time":  {time.Minute, 5 * time.Second, 10, 0},
		"too late": {2500 * time.Millisecond, 2500 * time.Millisecond, 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f failures
				var made tally
				b := cache.NewBehind(writer{set: func(ctx context.Context, _ string, _ []byte, _ time.Duration) error {
					select {
					case <-time.After(time.Second):
						made.add("")
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}}, cache.BehindOptions{Writers: 2, Timeout: time.Minute, Failed: f.add})
				for i := range 10 {
					offer(t, b, strconv.Itoa(i), "v")
				}
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				for range 2 { // the second call has nothing to do
					err := b.Close(ctx)
					if late := errors.Is(err, context.DeadlineExceeded); late != (c.dropped > 0) || err != nil && !late || time.Since(start) != c.took {
						t.Errorf("got %v after %v", err, time.Since(start))
					}
				}
				if offer(t, b, "later", "v") || made.counts[""] != c.written || f.all != 10-c.written || f.dropped != c.dropped || b.Pending() != 0 {
					t.Errorf("%d written, %d told, %d of these dropped, %d pending", made.counts[""], f.all, f.dropped, b.Pending())
				}
			})
		})
	}
}

// A behindModel predicts what a Behind must do, and drives it.
type behindModel struct {
	o                cache.BehindOptions
	b                *cache.Behind
	d                hangingStore
	f                failures
	waiting, running map[string]string
	offered, gone    int // gone: refused or replaced
}

// set offers a value and checks that it is accepted if there is room.
func (w *behindModel) set(t *rapid.T) {
	w.offered++
	key := rapid.SampledFrom([]string{"a", "b", "cc", "ddd"}).Draw(t, "key")
	val := fmt.Sprintf("%0*d", rapid.IntRange(0, 30).Draw(t, "size"), w.offered)
	entries, size := 1, len(key+val)
	for k, v := range w.waiting {
		if k != key {
			entries, size = entries+1, size+len(k+v)
		}
	}
	err := w.b.Set(context.Background(), key, []byte(val), time.Minute)
	if fits := entries <= w.o.Entries && int64(size) <= w.o.Bytes; fits != (err == nil) || !fits && !errors.Is(err, cache.ErrBehind) {
		t.Fatalf("%d writes of %d bytes would wait: %v", entries, size, err)
	}
	if w.waiting[key] != "" || err != nil {
		w.gone++
	}
	if err == nil {
		w.waiting[key] = val
	}
}

// end ends a write that runs.
func (w *behindModel) end(t *rapid.T) {
	hanging := w.d.hanging()
	if len(hanging) == 0 {
		t.Skip("none runs")
	}
	h := rapid.SampledFrom(hanging).Draw(t, "write")
	h.end <- rapid.SampledFrom([]error{nil, errors.New("down"), errPanic}).Draw(t, "error")
	delete(w.running, h.key)
}

// check looks at the running writes: only values that waited, one of a key, and as many
// as are allowed.
func (w *behindModel) check(t *rapid.T) {
	hanging := w.d.hanging()
	for _, h := range hanging {
		if w.running[h.key] == h.val {
			continue
		}
		if w.running[h.key] != "" || w.waiting[h.key] != h.val {
			t.Fatalf("%s=%s runs; before, %v ran and %v waited", h.key, h.val, w.running, w.waiting)
		}
		w.running[h.key] = h.val
		delete(w.waiting, h.key)
	}
	if len(hanging) != len(w.running) || len(hanging) > w.o.Writers || w.b.Pending() != len(w.running)+len(w.waiting) {
		t.Fatalf("%d run, %d are pending, want %v and %v", len(hanging), w.b.Pending(), w.running, w.waiting)
	}
	for key := range w.waiting {
		if w.running[key] == "" && len(hanging) < w.o.Writers {
			t.Fatalf("%s waits for nothing", key)
		}
	}
	if w.gone+w.f.all+len(w.d.written)+w.b.Pending() != w.offered {
		t.Fatalf("%d gone, %d told, %d written, %d pending of %d", w.gone, w.f.all, len(w.d.written), w.b.Pending(), w.offered)
	}
}

// Whatever is set and however writes end: the waiting writes are within the limits, the
// last value of each key is the one written, every write is accounted for, and Failed
// is called without a lock held.
func TestBehindModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			w := &behindModel{waiting: map[string]string{}, running: map[string]string{}}
			w.o = cache.BehindOptions{
				Entries: rapid.IntRange(1, 4).Draw(t, "entries"), Bytes: rapid.Int64Range(20, 60).Draw(t, "bytes"),
				Writers: rapid.IntRange(1, 3).Draw(t, "writers"), Timeout: time.Hour,
				Failed: func(key string, err error) { w.b.Pending(); w.f.add(key, err) },
			}
			w.b = cache.NewBehind(writer{set: w.d.take}, w.o)
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			defer func() { _ = w.b.Close(ended) }() // whatever fails, the writers end
			t.Repeat(map[string]func(*rapid.T){"set": w.set, "end": w.end, "": w.check})
			want := "<nil>"
			if pending := w.b.Pending(); pending > 0 {
				want = fmt.Sprintf("close: %d writes lost: context canceled", pending)
			}
			if err := w.b.Close(ended); fmt.Sprint(err) != want || w.f.dropped != len(w.waiting) {
				t.Fatalf("%d dropped of %v, close: %v, want %s", w.f.dropped, w.waiting, err, want)
			}
			w.waiting, w.running = nil, nil
			w.check(t)
		})
	})
}

// However many goroutines set a key and however many write: its values are written in
// order, never two at a time, and the last accepted one stays.
func TestBehindOrder(t *testing.T) {
	const setters, keys, rounds = 8, 5, 2000
	var offered, taken, written [keys]int
	var offering, writing [keys]sync.Mutex
	b := cache.NewBehind(writer{set: func(_ context.Context, key string, val []byte, _ time.Duration) error {
		k, _ := strconv.Atoi(key)
		n, _ := strconv.Atoi(string(val))
		if !writing[k].TryLock() {
			return errors.New("another write runs")
		}
		defer writing[k].Unlock()
		runtime.Gosched()
		if n <= written[k] {
			t.Errorf("key %d: %d is written after %d", k, n, written[k])
		}
		written[k] = n
		return nil
	}}, cache.BehindOptions{Entries: 3, Writers: 4, Failed: func(key string, err error) { t.Errorf("%s: %v", key, err) }})
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

func BenchmarkBehindSet(b *testing.B) {
	var keys [1000]string
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	hang := func(ctx context.Context, _ string, _ []byte, _ time.Duration) error { <-ctx.Done(); return nil }
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	for name, c := range map[string]struct{ keys, bytes int }{
		"queued":   {len(keys), 1 << 30},
		"replaced": {1, 1 << 30},
		"dropped":  {1, 1},
	} {
		b.Run(name, func(b *testing.B) {
			val, o := make([]byte, 10000), cache.BehindOptions{Bytes: int64(c.bytes)}
			s := cache.NewBehind(writer{set: hang}, o)
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				if i%len(keys) == 0 { // all are in the queue
					b.StopTimer()
					_ = s.Close(ended)
					s = cache.NewBehind(writer{set: hang}, o)
					b.StartTimer()
				}
				_ = s.Set(ended, keys[i%c.keys], val, time.Hour)
			}
			_ = s.Close(ended)
		})
	}
}
