package redis

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"sidenote/cache"
)

// A step waits and then ends a number of calls in the same way.
type step struct {
	after time.Duration
	does  string // "close", "works", "fails", and "old works" or "old fails" of the period before
	times int
	open  bool // the state afterwards
}

func TestBreaker(t *testing.T) {
	const ms = time.Millisecond
	for name, steps := range map[string][]step{
		"begins open":              {{0, "works", 1, true}, {0, "fails", 10, true}},
		"closes":                   {{0, "close", 1, false}},
		"opens after five":         {{0, "close", 1, false}, {0, "fails", 4, false}, {0, "fails", 1, true}, {0, "works", 1, true}, {time.Hour, "works", 1, true}},
		"in a row":                 {{0, "close", 1, false}, {0, "fails", 4, false}, {0, "works", 1, false}, {0, "fails", 4, false}, {0, "fails", 1, true}},
		"three over a second":      {{0, "close", 1, false}, {0, "fails", 2, false}, {time.Second, "fails", 1, true}},
		"three over less":          {{0, "close", 1, false}, {0, "fails", 2, false}, {time.Second - 1, "fails", 1, false}, {1, "fails", 1, true}},
		"two over an hour":         {{0, "close", 1, false}, {0, "fails", 1, false}, {time.Hour, "fails", 1, false}},
		"three, but one worked":    {{0, "close", 1, false}, {0, "fails", 2, false}, {900 * ms, "works", 1, false}, {100 * ms, "fails", 3, false}},
		"long after the last row":  {{0, "close", 1, false}, {0, "fails", 2, false}, {0, "works", 1, false}, {time.Hour, "fails", 3, false}},
		"again, too soon":          {{0, "close", 1, false}, {0, "fails", 5, true}, {ms, "close", 1, false}, {0, "fails", 100, false}},
		"again, as nothing works":  {{0, "close", 1, false}, {0, "fails", 5, true}, {ms, "close", 1, false}, {0, "fails", 10, false}, {time.Second, "fails", 1, true}},
		"again, just too soon":     {{0, "close", 1, false}, {0, "fails", 5, true}, {ms, "close", 1, false}, {10*time.Second - 2*ms, "fails", 5, false}},
		"again":                    {{0, "close", 1, false}, {0, "fails", 5, true}, {ms, "close", 1, false}, {10*time.Second - ms, "fails", 4, false}, {0, "fails", 1, true}},
		"old failures":             {{0, "close", 1, false}, {0, "fails", 5, true}, {10 * time.Second, "close", 1, false}, {0, "old fails", 10, false}, {0, "fails", 4, false}, {0, "fails", 1, true}},
		"old successes":            {{0, "close", 1, false}, {0, "fails", 5, true}, {10 * time.Second, "close", 1, false}, {0, "fails", 4, false}, {0, "old works", 1, false}, {0, "fails", 1, true}},
		"closing begins a new row": {{0, "close", 1, false}, {0, "fails", 4, false}, {0, "close", 1, false}, {0, "fails", 4, false}, {0, "fails", 1, true}},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { play(t, steps) }) })
	}
}

func play(t *testing.T, steps []step) {
	var b breaker
	period := uint64(0)
	for i, s := range steps {
		<-time.After(s.after)
		if b.allow() != 0 {
			period = b.allow()
		}
		opened := 0
		for range s.times {
			switch s.does {
			case "close":
				b.close()
			case "works":
				b.worked(b.allow())
			case "fails":
				if b.failed(b.allow()) {
					opened++
				}
			case "old works":
				b.worked(period - 1)
			case "old fails":
				if b.failed(period - 1) {
					opened++
				}
			}
		}
		if open := b.allow() == 0; open != s.open {
			t.Fatalf("step %d, %s: open is %v", i, s.does, open)
		}
		// Exactly one of the failed calls starts the probing.
		if was := i > 0 && !steps[i-1].open && s.open; was != (opened == 1) {
			t.Fatalf("step %d, %s: %d were the one that opened it", i, s.does, opened)
		}
	}
}

// A fake is a Redis whose calls end as the test wants.
type fake struct {
	goredis.UniversalClient // its other methods are not called

	mu       sync.Mutex
	get, set func(context.Context) error
}

func (f *fake) answer(get, set func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.get, f.set = get, set
}

func (f *fake) answers() (get, set func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.get, f.set
}

func (f *fake) GetRange(ctx context.Context, _ string, _, _ int64) *goredis.StringCmd {
	cmd := goredis.NewStringCmd(ctx)
	get, _ := f.answers()
	cmd.SetErr(get(ctx))
	return cmd
}

func (f *fake) Set(ctx context.Context, _ string, _ any, _ time.Duration) *goredis.StatusCmd {
	cmd := goredis.NewStatusCmd(ctx)
	_, set := f.answers()
	cmd.SetErr(set(ctx))
	return cmd
}

func (f *fake) SetNX(ctx context.Context, _ string, _ any, _ time.Duration) *goredis.BoolCmd {
	cmd := goredis.NewBoolCmd(ctx)
	_, set := f.answers()
	cmd.SetErr(set(ctx))
	return cmd
}

func (f *fake) Close() error { return nil }

// A says is an error reply.
type says string

func (s says) Error() string { return string(s) }
func (says) RedisError()     {}

func works(context.Context) error { return nil }

func ends(err error) func(context.Context) error { return func(context.Context) error { return err } }

// hangs waits until the context ends.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// fakeStore returns a store whose first probe has succeeded, and whose later calls are answered by
// the fake.
func fakeStore(t *testing.T, o Options, get, set func(context.Context) error) (*Store, *fake) {
	t.Helper()
	o.URL = "redis://127.0.0.1:1"
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.client.Close(); err != nil {
		t.Fatal(err)
	}
	f := &fake{get: works, set: works}
	d.client = f
	s := d.Store("test")
	<-s.Asked()
	f.answer(get, set)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, f
}

func TestWhatOpensTheBreaker(t *testing.T) {
	for name, c := range map[string]struct {
		end      func(context.Context) error
		get, set bool // open after 50 failed reads, writes
	}{
		"refused":     {ends(syscall.ECONNREFUSED), true, true},
		"cut":         {ends(io.ErrUnexpectedEOF), true, true},
		"time-out":    {hangs, true, true},
		"no Redis":    {ends(errNoRedis), true, true},
		"TLS":         {ends(&handshakeError{io.EOF}), true, true},
		"no password": {ends(says("NOAUTH Authentication required.")), true, false},
		"may not":     {ends(says("NOPERM this user has no permissions")), true, false},
		"loading":     {ends(says("LOADING Redis is loading the dataset in memory")), true, false},
		"script":      {ends(says("BUSY Redis is busy running a script.")), true, false},
		"any error":   {ends(says("ERR no")), true, false},
		"memory":      {ends(says("OOM command not allowed")), false, false},
		"replica":     {ends(says("READONLY You can't write against a read only replica.")), false, false},
		"disk":        {ends(says("MISCONF Redis is configured to save RDB snapshots")), false, false},
		"a list":      {ends(says("WRONGTYPE Operation against a key holding the wrong kind of value")), false, false},
		"absent":      {ends(goredis.Nil), false, false},
		"full pool":   {ends(goredis.ErrPoolTimeout), false, false},
		"pool":        {ends(goredis.ErrPoolExhausted), false, false},
		"cancelled":   {ends(context.Canceled), false, false},
		"closed":      {ends(goredis.ErrClosed), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				get, _ := fakeStore(t, Options{}, c.end, works)
				for range 50 {
					open := get.Open()
					if _, err := get.Get(t.Context(), "k"); errors.Is(err, cache.ErrSkipped) != open {
						t.Fatalf("open: %v, got %v", open, err)
					}
				}
				set, _ := fakeStore(t, Options{}, works, c.end)
				for range 50 {
					_ = set.Set(t.Context(), "k", nil, time.Minute)
				}
				if get.Open() != c.get || set.Open() != c.set {
					t.Errorf("open after reads: %v, after writes: %v", get.Open(), set.Open())
				}
			})
		})
	}
}

// A failed call with too little time says nothing about Redis.
func TestShortCallsDoNotCount(t *testing.T) {
	for given, opens := range map[time.Duration]bool{
		time.Microsecond: false, DefaultTimeout/2 - 1: false, DefaultTimeout / 2: true, DefaultTimeout: true, time.Hour: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := fakeStore(t, Options{}, hangs, works)
			for range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), given)
				start := time.Now()
				if _, err := s.Get(ctx, "k"); err == nil || time.Since(start) > min(given, DefaultTimeout) {
					t.Errorf("given %v: %v after %v", given, err, time.Since(start))
				}
				cancel()
			}
			if s.Open() != opens {
				t.Errorf("given %v: open is %v", given, s.Open())
			}
		})
	}
}

// A Redis that is too slow for one call in three stays in use (row R7).
func TestSlowRedisDoesNotFlap(t *testing.T) {
	const spacing, minute = 20 * time.Millisecond, 3000 // calls in a minute
	opened, made := 0, 0
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			r := rand.New(rand.NewPCG(seed, 7))
			s, _ := fakeStore(t, Options{}, func(ctx context.Context) error {
				mu.Lock()
				took := 10*time.Millisecond + time.Duration(r.IntN(60))*time.Millisecond // 40 ± 30
				mu.Unlock()
				select {
				case <-time.After(took):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}, works)
			var calls sync.WaitGroup
			var at []time.Time
			open := false
			for range minute {
				calls.Go(func() { _, _ = s.Get(t.Context(), "k") })
				<-time.After(spacing)
				if now := s.Open(); now != open {
					if open = now; open {
						at = append(at, time.Now())
					}
				}
				if !open {
					made++
				}
			}
			calls.Wait()
			for i := 1; i < len(at); i++ {
				if gap := at[i].Sub(at[i-1]); gap < 10*time.Second-spacing {
					t.Errorf("seed %d: opened again after %v", seed, gap)
				}
			}
			opened += len(at)
		})
	}
	if opened < 10 || made < 9*minute {
		t.Errorf("opened %d times, %d of %d calls made", opened, made, 10*minute)
	}
	t.Logf("10 minutes: opened %d times, %.1f%% of the calls made", opened, float64(made)*100/(10*minute))
}

// While the breaker is open, probes come about 400 ms apart and never in step.
func TestProbesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := fakeStore(t, Options{}, ends(syscall.ECONNREFUSED), works)
		for !s.Open() {
			_, _ = s.Get(t.Context(), "k")
		}
		var mu sync.Mutex
		var at []time.Duration
		start := time.Now()
		f.answer(func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
			return syscall.ECONNREFUSED
		}, works)
		<-time.After(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		var gaps []time.Duration
		last := time.Duration(0)
		for _, a := range at {
			gaps, last = append(gaps, a-last), a
		}
		if n := len(gaps); n < 120 || n > 180 {
			t.Errorf("%d questions in a minute", n)
		}
		if least, most := slices.Min(gaps), slices.Max(gaps); least < 200*time.Millisecond || most > 600*time.Millisecond || most-least < 300*time.Millisecond {
			t.Errorf("between %v and %v apart", least, most)
		}
	})
}
