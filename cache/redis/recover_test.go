package redis_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// A Redis that is back is used again within 2 s, however it was lost, under load and without
// making a request wait.
func TestRecovery(t *testing.T) {
	type part struct {
		server *redistest.Server
		fault  *redistest.Fault
	}
	const dead = "connection refused" + without
	for name, c := range map[string]struct {
		pool int // 1: the library stops dialling for a second after the first failure
		line string
		lose func(part)
		back func(part)
	}{
		"killed":              {0, dead, func(p part) { p.server.Kill(); p.fault.Refuse(true) }, func(p part) { p.server.Restart(); p.fault.Refuse(false) }},
		"killed, small pool":  {1, dead, func(p part) { p.server.Kill(); p.fault.Refuse(true) }, func(p part) { p.server.Restart(); p.fault.Refuse(false) }},
		"frozen":              {0, "does not answer within 50ms" + without, func(p part) { p.server.Stop() }, func(p part) { p.server.Continue() }},
		"black hole":          {0, "does not answer within 50ms" + without, func(p part) { p.fault.Blackhole(true) }, func(p part) { p.fault.Blackhole(false) }},
		"hole, small pool":    {1, "does not answer within 50ms" + without, func(p part) { p.fault.Blackhole(true) }, func(p part) { p.fault.Blackhole(false) }},
		"cut in each reply":   {0, closes, func(p part) { p.fault.CutAfter(3) }, func(p part) { p.fault.CutAfter(0) }},
		"far too slow":        {0, "does not answer within 50ms" + without, func(p part) { p.fault.Latency(time.Second, 0) }, func(p part) { p.fault.Latency(0, 0) }},
		"out of reach, reset": {0, dead, func(p part) { p.fault.Refuse(true); p.fault.Reset() }, func(p part) { p.fault.Refuse(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p := part{server, redistest.NewFault(t, server.Addr())}
			db := open(t, redis.Options{URL: "redis://" + p.fault.Addr(), PoolSize: c.pool})
			s := db.Store("test")
			await(t, "the store to work", func() bool { return !s.Open() })
			stop := load(t, s)
			defer stop()

			c.lose(p)
			await(t, "the line", func() bool {
				trouble := db.Trouble()
				return s.Open() && len(trouble) == 1 && trouble[0] == "redis "+db.Address()+": "+c.line
			})
			c.back(p)
			await(t, "a call that works", func() bool { // how soon is tested in fake time
				return s.Set(t.Context(), "k", []byte("v"), time.Minute) == nil
			})
			await(t, "all to be well", func() bool { return db.Trouble() == nil && !s.Open() })
		})
	}
}

// load makes 50 reads a second until it is stopped.
func load(t *testing.T, s *redis.Store) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				all.Go(func() { _, _ = s.Get(ctx, "k") })
			}
		}
	})
	return func() { cancel(); all.Wait() }
}

// Without a Redis at the start, it is used once there is one (row R6).
func TestRedisComesLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	var l log
	db := open(t, l.attach(redis.Options{URL: server.URL()}))
	s := db.Store("test")
	asked(t, s)
	if _, err := s.Get(t.Context(), "k"); !errors.Is(err, cache.ErrSkipped) {
		t.Errorf("without a Redis: got %v", err)
	}
	server.Restart()
	await(t, "the store to work", func() bool { return !s.Open() })
	line := "redis " + db.Address() + ": connection refused" + without
	if want := []string{"+" + line, "-" + line}; !slices.Equal(l.told(), want) {
		t.Errorf("told %q, want %q", l.told(), want)
	}
}

// A frozen Redis costs five calls their time, and later ones nothing (rows R2 and R4). Not
// parallel, because it counts goroutines.
func TestFrozenRedisCostsLittle(t *testing.T) {
	const pool, callers = 8, 50
	server := redistest.Start(t)
	var l log
	s := working(t, l.attach(redis.Options{URL: server.URL(), PoolSize: pool}))
	keep(t, s, "k", "v")
	l.kinds()
	base := runtime.NumGoroutine()
	server.Stop()
	defer server.Continue()
	for !s.Open() {
		_, _ = s.Get(t.Context(), "k")
	}
	if calls := len(l.kinds()); calls > 6 { // one may have been answered before it froze
		t.Errorf("%d calls were made before the breaker opened", calls)
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 1000 {
				if _, err := s.Get(t.Context(), "k"); !errors.Is(err, cache.ErrSkipped) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
	all.Wait()
	if n := runtime.NumGoroutine(); n > base+pool {
		t.Errorf("%d goroutines, %d before", n, base)
	}
	if calls := l.kinds(); len(calls) > 0 {
		t.Errorf("skipped calls were reported: %q", calls)
	}
}

// More calls than connections do not count as a failure of Redis (row R9).
func TestFullPoolIsNoOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	fault := redistest.NewFault(t, server.Addr())
	var l log
	const timeout = time.Second
	s := working(t, l.attach(redis.Options{URL: "redis://" + fault.Addr(), PoolSize: 2, Timeout: timeout}))
	keep(t, s, "k", "v")
	l.kinds()
	fault.Latency(150*time.Millisecond, 0)
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), timeout/2+time.Duration(i)*5*time.Millisecond)
			defer cancel()
			if got, err := s.Get(ctx, "k"); err == nil && string(got) != "v" {
				t.Errorf("got %q", got)
			}
		})
	}
	all.Wait()
	if s.Open() {
		t.Error("the breaker is open")
	}
	kinds := map[redis.Kind]int{}
	for _, k := range l.kinds() {
		kinds[k]++
	}
	if kinds[""] < 4 || kinds[redis.Pool] < 200 || kinds[redis.Timeout] > 4 {
		t.Errorf("ended as %v", kinds)
	}
}

// Closing under load ends everything, and is not reported as a recovery.
func TestClose(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Stop()
	for range 20 {
		var l log
		db, err := redis.Open(l.attach(redis.Options{URL: server.URL(), Timeout: 20 * time.Millisecond}))
		if err != nil {
			t.Fatal(err)
		}
		s := db.Store("test")
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for range 20 {
					_, _ = s.Get(t.Context(), fmt.Sprint(i))
				}
			})
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		asked(t, s)
		asked(t, db.Store("late"))
		if _, err := s.Get(t.Context(), "k"); err == nil {
			t.Error("a closed store answers")
		}
		for _, line := range l.told() {
			if line[0] == '-' {
				t.Errorf("told %q", line)
			}
		}
		if err := db.Close(); err != nil {
			t.Errorf("again: %v", err)
		}
	}
}
