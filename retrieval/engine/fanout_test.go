//go:build !race

// The race detector crashes now and then on a thousand goroutines with timers in a bubble of synctest,
// so deploy/test.sh runs these tests without it.

package engine_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/retrieval/engine"
)

// A queue is a Server with some workers, each of which serves one call at a time, as the connections
// of a pooler in front of a database do. Calls wait in order of arrival. A call whose deadline passes
// while it waits takes no worker.
type queue struct {
	engine.Server // nil: only States, Measures and Close are called

	workers  chan struct{} // holds a token for each busy worker
	measured []byte

	mu       sync.Mutex
	states   time.Duration // of a worker, for a call
	measures time.Duration
	state    engine.State
	use      use
}

// A use is what calls took of a queue.
type use struct {
	states, measures int           // calls that were answered
	busy             time.Duration // sum over the workers
	waited           time.Duration // longest wait for a worker
	failed           int           // calls whose deadline passed
}

func newQueue(workers int, states time.Duration) *queue {
	return &queue{
		workers: make(chan struct{}, workers), measured: emptyMeasures(), states: states,
		state: engine.State{Base: "b", Generation: "old", Documents: 1, Chunks: 1, Measures: "old"},
	}
}

// emptyMeasures returns measures of a base without words. Those of real bases are larger; their size
// is in the time that a call takes.
func emptyMeasures() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte("{}")) // a Buffer does not fail
	_ = w.Close()
	return b.Bytes()
}

// serve waits for a worker and keeps it for the time of the call.
func (q *queue) serve(ctx context.Context, took *time.Duration, answer func()) error {
	came := time.Now()
	select {
	case q.workers <- struct{}{}:
		defer func() { <-q.workers }()
	case <-ctx.Done():
		return q.fail(ctx)
	}
	q.mu.Lock()
	d := *took
	q.use.busy, q.use.waited = q.use.busy+d, max(q.use.waited, time.Since(came))
	q.mu.Unlock()
	done := time.NewTimer(d)
	defer done.Stop()
	select {
	case <-done.C:
	case <-ctx.Done():
		return q.fail(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	answer()
	return nil
}

func (q *queue) fail(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.use.failed++
	return ctx.Err()
}

// States returns the state at the time of the answer.
func (q *queue) States(ctx context.Context, _ []string) (states []engine.State, err error) {
	err = q.serve(ctx, &q.states, func() {
		q.use.states++
		states = []engine.State{q.state}
	})
	return states, err
}

// Measures returns the same measures for each version.
func (q *queue) Measures(ctx context.Context, _ string) (measures []byte, err error) {
	err = q.serve(ctx, &q.measures, func() {
		q.use.measures++
		measures = q.measured
	})
	return measures, err
}

// Close implements engine.Server.
func (q *queue) Close() error { return nil }

// commit makes a generation visible, with new measures if reading them takes any time.
func (q *queue) commit(measures time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.state.Generation = "new"
	if measures > 0 {
		q.state.Measures, q.measures = "new", measures
	}
}

// used returns the use since it was called last.
func (q *queue) used() use {
	q.mu.Lock()
	defer q.mu.Unlock()
	u := q.use
	q.use = use{}
	return u
}

// A fleet is many Engines on one Server.
type fleet struct {
	engines []*engine.Engine

	mu   sync.Mutex
	seen map[string]int // Engines by the generation that they see
}

// openFleet opens all Engines of a fleet at the same time.
func openFleet(size int, server engine.Server) *fleet {
	f := &fleet{seen: map[string]int{}}
	for range size {
		last := "" // Looked is not called concurrently
		looked := func(s engine.State) {
			if s.Generation != last {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.seen[last]--
				last = s.Generation
				f.seen[last]++
			}
		}
		f.engines = append(f.engines, engine.Open(engine.Options{
			Server: server, Name: "test", Bases: []string{"b"}, Version: "1",
			Neutralise: func(_, text string) string { return text }, Looked: looked,
		}))
	}
	return f
}

// sees reports whether all Engines see a generation.
func (f *fleet) sees(generation string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[generation] == len(f.engines)
}

// refs returns the number of Engines by the generation under which they cache results.
func (f *fleet) refs() map[string]int {
	refs := map[string]int{}
	for _, e := range f.engines {
		refs[e.Base("b").Ref().Generation]++
	}
	return refs
}

func (f *fleet) close() {
	for _, e := range f.engines {
		_ = e.Close()
	}
}

// until waits until something holds, at most for a time, and returns how long that was, to 10 ms.
func until(most time.Duration, holds func() bool) time.Duration {
	start := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() && time.Since(start) < most {
		<-tick.C
	}
	return time.Since(start)
}

// The fleet of the tests, and what calls take of a connection of Postgres and of a PgBouncer, as measured
// for deploy/MACHINES.md. The measures are those of a base with 200,000 words.
const (
	fleetSize    = 10_000
	poolSize     = 16
	statesTime   = 500 * time.Microsecond
	measuresTime = 4 * time.Millisecond

	poolerStatesTime   = 80 * time.Microsecond
	poolerMeasuresTime = 3 * time.Millisecond

	callTimeout = engine.DefaultTimeout
	loadSpread  = 20 * time.Second // of package engine
)

// scaled returns the size of a fleet, and the times of calls. With -short the fleet is smaller, and calls
// take longer, so the workers are as busy.
func scaled(states, measures time.Duration) (int, time.Duration, time.Duration) {
	if testing.Short() {
		return fleetSize / 10, 10 * states, 10 * measures
	}
	return fleetSize, states, measures
}

// An outcome is what a fleet sees of a commit.
type outcome struct {
	size    int
	steady  use           // in a second before the commit
	seen    time.Duration // after which all see the generation
	loaded  time.Duration // after which all have its measures; 0 if there are no new ones
	loading use           // from the commit to then
}

// share returns the share of the fleet that read the states in a second.
func (o *outcome) share() float64 { return float64(o.steady.states) / float64(o.size) }

// commitTo makes a commit to a fleet, and waits until all see it. measures is 0 for a commit without new
// measures.
func commitTo(t *testing.T, workers int, states, measures time.Duration) (o outcome) {
	t.Helper()
	o.size, states, measures = scaled(states, measures)
	synctest.Test(t, func(t *testing.T) {
		server := newQueue(workers, states)
		f := openFleet(o.size, server)
		defer f.close()
		until(time.Minute, func() bool { return f.sees("old") })
		until(5*time.Second, never)
		server.used()
		until(time.Second, never)
		o.steady = server.used()
		server.commit(measures)
		o.seen = until(time.Minute, func() bool { return f.sees("new") })
		if measures > 0 {
			o.loaded = o.seen + until(2*time.Minute, func() bool { return server.loads() >= o.size })
		}
		o.loading = server.used()
		synctest.Wait()
		if refs := f.refs(); len(refs) != 1 {
			t.Errorf("at the end the fleet caches under %d generations", len(refs))
		}
	})
	t.Logf("%d sidecars, %d workers, %v a read of states: %d reads in a second, workers busy for %v of %v, longest wait %v",
		o.size, workers, states, o.steady.states, o.steady.busy, time.Duration(workers)*time.Second, o.steady.waited)
	t.Logf("all see a commit after %v, and have its measures, %v a read, after %v; longest wait %v, %d calls failed",
		o.seen, measures, o.loaded, o.loading.waited, o.loading.failed)
	return o
}

func never() bool { return false }

func (q *queue) loads() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.use.measures
}

// A fleet sees a commit within 2 s, spreads its calls evenly, and has new measures soon after: from the
// connections of a database, and through two poolers, each of which is one thread.
func TestFleetSeesCommit(t *testing.T) {
	for name, server := range map[string]struct {
		workers          int
		states, measures time.Duration
	}{
		"database": {poolSize, statesTime, measuresTime},
		"poolers":  {2, poolerStatesTime, poolerMeasuresTime},
	} {
		t.Run(name, func(t *testing.T) {
			o := commitTo(t, server.workers, server.states, server.measures)
			if o.seen >= 2*time.Second {
				t.Errorf("all see the commit after %v", o.seen)
			}
			if share := o.share(); share < .99 || share > 1.01 {
				t.Errorf("%.0f%% of the fleet read the states in a second", 100*share)
			}
			if o.steady.waited > 50*time.Millisecond {
				t.Errorf("a read of the states waited %v", o.steady.waited)
			}
			if o.loaded >= loadSpread+5*time.Second || o.loading.failed > 0 {
				t.Errorf("all have the measures after %v; %d calls failed", o.loaded, o.loading.failed)
			}
		})
	}
}

// One pooler hands out measures more slowly than sidecars ask: calls fail, and are made again until
// all have them.
func TestFleetOnBusyPooler(t *testing.T) {
	o := commitTo(t, 1, poolerStatesTime, poolerMeasuresTime)
	if o.loading.failed == 0 || o.loaded < loadSpread+5*time.Second || o.loaded > 2*time.Minute {
		t.Errorf("all have the measures after %v; %d calls failed", o.loaded, o.loading.failed)
	}
}

// On a server that cannot keep up, sidecars read the states less often than each second, and see a
// commit as much later. No read fails.
func TestFleetOnSlowServer(t *testing.T) {
	for _, slow := range []float64{1.25, 4} {
		t.Run(fmt.Sprint(slow, " times too slow"), func(t *testing.T) {
			states := time.Duration(slow * poolSize * float64(time.Second) / fleetSize)
			o := commitTo(t, poolSize, states, 0)
			if share := o.share(); share < .95/slow || share > 1.05/slow {
				t.Errorf("%.0f%% of the fleet read the states in a second, want %.0f%%", 100*share, 100/slow)
			}
			if most := time.Duration(2.1 * slow * float64(time.Second)); o.seen > most || slow > 2 && o.seen < 2*time.Second {
				t.Errorf("all see the commit after %v, want %v at most", o.seen, most)
			}
			if o.loading.failed > 0 {
				t.Errorf("%d calls failed", o.loading.failed)
			}
		})
	}
}

// A fleet that starts all at once has the states first, and the measures as fast as the server gives
// them out, even if that takes longer than a call may.
func TestFleetStartsAtOnce(t *testing.T) {
	for name, slow := range map[string]int{"in time": 1, "beyond the timeout": 8} {
		t.Run(name, func(t *testing.T) {
			size, states, measures := scaled(statesTime, time.Duration(slow)*measuresTime)
			work := time.Duration(size) * measures / poolSize
			var seen, loaded time.Duration
			var u use
			synctest.Test(t, func(t *testing.T) {
				server := newQueue(poolSize, states)
				server.measures = measures
				f := openFleet(size, server)
				defer f.close()
				seen = until(time.Minute, func() bool { return f.sees("old") })
				loaded = seen + until(3*time.Minute, func() bool { return server.loads() >= size })
				u = server.used()
			})
			t.Logf("%d sidecars, %v a read of measures: all have the states after %v and the measures after %v; %d calls failed", size, measures, seen, loaded, u.failed)
			if work < callTimeout/2 && u.failed > 0 || work > callTimeout && u.failed == 0 {
				t.Errorf("%d calls failed", u.failed)
			}
			if loaded > 2*work+2*time.Second {
				t.Errorf("all have the measures after %v, the server worked for %v", loaded, work)
			}
		})
	}
}
