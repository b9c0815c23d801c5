package redis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/cache/redis"
	"sidenote/cache/redis/redistest"
)

// Whatever is cut, cancelled, killed, frozen or late, no read gets another key's value (rows R3,
// R8 and R26). Not parallel, because it counts goroutines.
func TestWrongValues(t *testing.T) {
	reads := int64(100_000)
	switch {
	case os.Getenv("SIDENOTE_LONG") != "":
		reads *= 10
	case testing.Short():
		reads /= 10
	}
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	mayhem(t, server, "redis://", nil, time.Microsecond, 0, reads)
}

// With TLS the library cannot check whether bytes are left on a connection. Connecting takes
// longer, and each late read costs a connection: on a busy machine the usual time limit would be
// too short for nearly all of them.
func TestWrongValuesWithTLS(t *testing.T) {
	reads := int64(5000)
	if testing.Short() {
		reads /= 5
	}
	server, ca := redistest.StartTLS(t, "--appendonly", "yes", "--appendfsync", "no")
	mayhem(t, server, "rediss://", read(t, ca), 20*time.Microsecond, time.Second, reads)
}

const mayhemKeys = 200

// mayhemValues returns values that name their key, every tenth of them of up to 34 KB.
var mayhemValues = func() (all [mayhemKeys][]byte) {
	for key := range all {
		all[key] = bytes.Repeat(fmt.Appendf(nil, "value of key %d;", key), 1+key%10)
		if key%10 == 0 {
			all[key] = bytes.Repeat(all[key], 1+10*key)
		}
	}
	return all
}()

// A tally counts how reads end.
type tally struct {
	begun, right, absent, late, wrong atomic.Int64
	broken                            atomic.Int64 // not begun
	faults                            atomic.Int64
}

// mayhem reads through one store while everything fails, with time limits of all lengths: the
// shortest are 1 to 300 units, the longest is the store's own.
func mayhem(t *testing.T, server *redistest.Server, scheme string, ca []byte, unit, longest time.Duration, reads int64) {
	base := runtime.NumGoroutine()
	fault := redistest.NewFault(t, server.Addr())
	db, err := redis.Open(redis.Options{URL: scheme + fault.Addr(), CA: ca, PoolSize: 8, Timeout: longest})
	if err != nil {
		t.Fatal(err)
	}
	s := db.Store("test")
	await(t, "the store to work", func() bool { return !s.Open() })
	for key := range mayhemKeys {
		await(t, "a value to be kept", func() bool {
			return s.Set(t.Context(), fmt.Sprint(key), mayhemValues[key], time.Hour) == nil
		})
	}
	var all tally
	var readers sync.WaitGroup
	start := time.Now()
	for seed := range uint64(16) {
		readers.Go(func() { all.read(t, s, rand.New(rand.NewPCG(seed, uint64(reads))), unit, reads) })
	}
	ended := make(chan struct{})
	go func() { readers.Wait(); close(ended) }()
	breakThings(server, fault, ended, &all.faults, func() bool { return !s.Open() })
	took := time.Since(start)

	begun, right := all.begun.Load(), all.right.Load()
	t.Logf("%d reads in %v, %d faults: %.1f%% right, %.1f%% absent, %.1f%% late, %d wrong; and %d that broke", begun, took.Round(time.Millisecond), all.faults.Load(),
		float64(right)*100/float64(begun), float64(all.absent.Load())*100/float64(begun), float64(all.late.Load())*100/float64(begun), all.wrong.Load(), all.broken.Load())
	if all.wrong.Load() > 0 {
		t.Errorf("%d wrong values", all.wrong.Load())
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	fault.Close()
	await(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= base })
}

// read makes reads, and occasionally a write.
func (a *tally) read(t *testing.T, s *redis.Store, r *rand.Rand, unit time.Duration, reads int64) {
	for !a.enough(reads) {
		a.begun.Add(1)
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		brief := time.Duration(1+r.IntN(300)) * unit
		switch r.IntN(5) {
		case 0:
			ctx, cancel = context.WithTimeout(ctx, brief)
		case 1:
			ctx, cancel = context.WithCancel(ctx)
			time.AfterFunc(brief, cancel)
		case 2:
			ctx, cancel = context.WithTimeout(ctx, 10*brief)
		case 3:
			ctx, cancel = context.WithTimeout(ctx, 100*brief)
		}
		key := r.IntN(mayhemKeys)
		want := mayhemValues[key]
		if r.IntN(20) == 0 {
			_ = s.Set(ctx, fmt.Sprint(key), want, time.Hour)
		}
		got, err := s.Get(ctx, fmt.Sprint(key))
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
			a.late.Add(1)
		case err != nil: // skipped, no connection, or cut
			a.begun.Add(-1)
			if !errors.Is(err, cache.ErrSkipped) {
				a.broken.Add(1)
			}
			<-time.After(time.Millisecond)
		case got == nil:
			a.absent.Add(1)
		case bytes.Equal(got, want):
			a.right.Add(1)
		default:
			a.wrong.Add(1)
			t.Errorf("key %d: got %d bytes, want %d: %.60q…", key, len(got), len(want), got)
		}
	}
}

// enough reports whether the reads so far prove something: all kinds of faults have occurred, and
// many reads were right, late or broken.
func (a *tally) enough(reads int64) bool {
	return a.begun.Load() >= reads && a.faults.Load() >= kindsOfFaults &&
		a.right.Load() >= reads/5 && a.late.Load() >= reads/100 && a.broken.Load() >= 20
}

const kindsOfFaults = 10

// breakThings breaks one thing after the other until ended. In between it waits for the store to work,
// and lets it work for a while.
func breakThings(s *redistest.Server, f *redistest.Fault, ended <-chan struct{}, faults *atomic.Int64, works func() bool) {
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ended:
		}
	}
	calm := 400 * time.Millisecond
	if testing.Short() {
		calm = 50 * time.Millisecond
	}
	for {
		for _, breaks := range [kindsOfFaults]func(){
			f.Reset,
			func() { f.CutAfter(1000); wait(30 * time.Millisecond); f.CutAfter(0) },
			func() { s.Stop(); wait(40 * time.Millisecond); s.Continue() },
			func() { f.CutAfter(20_000); wait(30 * time.Millisecond); f.CutAfter(0) },
			func() {
				f.Latency(2*time.Millisecond, 2*time.Millisecond)
				wait(50 * time.Millisecond)
				f.Latency(0, 0)
			},
			func() { f.Blackhole(true); wait(40 * time.Millisecond); f.Blackhole(false) },
			func() { f.CutAfter(7); wait(10 * time.Millisecond); f.CutAfter(0) },
			func() {
				f.Latency(50*time.Millisecond, 50*time.Millisecond)
				wait(100 * time.Millisecond)
				f.Latency(0, 0)
			},
			func() { s.Stop(); wait(150 * time.Millisecond); s.Continue() },
			func() { s.Kill(); s.Restart() },
		} {
			select {
			case <-ended:
				return
			default:
			}
			breaks()
			faults.Add(1)
			wait(50 * time.Millisecond)
			for !works() {
				wait(10 * time.Millisecond)
			}
			wait(calm)
		}
	}
}
