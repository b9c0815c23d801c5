package cache_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/cache"
	"sidenote/cache/cachetest"
	"sidenote/retrieval"
	"sidenote/retrieval/retrievaltest"
)

const patience = 50 * time.Millisecond

// farTier returns a tier that requests may wait for, with asynchronous writes.
func farTier(t *testing.T, s cache.Store) cache.Tier {
	behind := cache.NewWriteBehind(s)
	t.Cleanup(func() {
		if err := behind.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return cache.Tier{Name: "far", Store: behind, TTL: 10 * time.Minute, EmptyTTL: 30 * time.Second, Wait: patience}
}

// If any call of a far store fails, hangs or panics, the answer is the same and comes within the
// time that a request may wait.
func TestStoreFaultsNeverShow(t *testing.T) {
	for name, fault := range map[string]func(context.Context) error{
		"error":   func(context.Context) error { return errors.New("injected") },
		"hang":    func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"panic":   func(context.Context) error { panic("injected") },
		"skipped": func(context.Context) error { return cache.ErrSkipped },
	} {
		t.Run(name, func(t *testing.T) {
			reached := 0
			for failAt := 0; ; failAt++ {
				calls := faultAt(t, failAt, fault)
				if calls <= failAt { // every call was tried
					break
				}
				reached++
			}
			if reached != 3 { // get and set of the miss, get of the hit
				t.Errorf("%d calls failed in turn", reached)
			}
		})
	}
}

// faultAt makes one store call fail and returns the number of calls.
func faultAt(t *testing.T, failAt int, fault func(context.Context) error) int {
	var calls atomic.Int32
	synctest.Test(t, func(t *testing.T) {
		store := cachetest.Faulty{Store: memory(t, 1<<20), Before: func(ctx context.Context, _ cachetest.Op, _ string) error {
			if calls.Add(1) == int32(failAt)+1 {
				return fault(ctx)
			}
			return nil
		}}
		r := cache.NewRetriever(fixed(answer(), nil), cache.Selected, []cache.Tier{farTier(t, store)}, nil)
		for range 2 { // a miss, then a hit
			start := time.Now()
			got, err := r.Retrieve(t.Context(), question("q"))
			if diff := cmp.Diff(answer(), got, like); err != nil || diff != "" {
				t.Errorf("fault at call %d shows: %v\n%s", failAt, err, diff)
			}
			if took := time.Since(start); took > patience {
				t.Errorf("fault at call %d costs %v", failAt, took)
			}
			<-time.After(time.Minute) // the write has ended
		}
	})
	return int(calls.Load())
}

// Replicas share what one of them found, and a far tier is asked only once per query.
func TestTiersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := farTier(t, memory(t, 1<<20))
		var searches tally
		engine := retrievaltest.Faulty{Next: fixed(answer(), nil), Before: func(_ context.Context, q retrieval.Query) error {
			searches.add(q.Text)
			return nil
		}}
		replica := func(seen *events) *cache.Retriever {
			tiers := append(near(memory(t, 1<<20)), shared)
			return cache.NewRetriever(engine, cache.Selected, tiers, seen.observe)
		}
		var one, two events
		if _, err := replica(&one).Retrieve(t.Context(), question("q")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // for the asynchronous write
		second := replica(&two)
		for range 2 {
			got, err := second.Retrieve(t.Context(), question("q"))
			if diff := cmp.Diff(answer(), got, like); err != nil || got.Cache != retrieval.CacheHit || diff != "" {
				t.Errorf("%s, %v (-want +got):\n%s", got.Cache, err, diff)
			}
		}
		want := []cache.Event{
			{Kind: cache.Selected, Tier: "memory", Result: cache.Miss},
			{Kind: cache.Selected, Tier: "far", Result: cache.Hit},
			{Kind: cache.Selected, Tier: "memory", Result: cache.Hit},
		}
		if diff := cmp.Diff(want, two.list); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if n := searches.add("q") - 1; n != 1 {
			t.Errorf("%d searches", n)
		}
	})
}

// Several slow lookups, of both kinds, in sequence and concurrently, take a request's waiting time
// only once.
func TestPatienceIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := cachetest.Faulty{Store: memory(t, 1<<20), Before: func(ctx context.Context, op cachetest.Op, _ string) error {
			if op == cachetest.Get {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
		var seen events
		cached := func(next retrieval.Retriever, kind cache.Kind) *cache.Retriever {
			return cache.NewRetriever(next, kind, append(near(memory(t, 1<<20)), farTier(t, hung)), seen.observe)
		}
		bases := map[string]retrieval.Retriever{}
		for _, id := range []string{"docs", "faq"} {
			bases[id] = cached(retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
				return retrieval.Result{Bases: q.Bases, Sources: []retrieval.Source{{Knowledge: id, Text: id, Score: 1}}}, nil
			}), cache.Candidates)
		}
		whole := cached(&retrieval.Pipeline{
			Bases: func(id string) retrieval.Retriever { return bases[id] },
			Terms: func(text string) []string { return []string{text} },
		}, cache.Selected)
		start := time.Now()
		res, err := whole.Retrieve(t.Context(), question("q"))
		if err != nil || len(res.Sources) != 2 {
			t.Errorf("%d sources, %v", len(res.Sources), err)
		}
		if took := time.Since(start); took != patience {
			t.Errorf("took %v, want %v", took, patience)
		}
		told := map[cache.Outcome]int{}
		for _, o := range seen.outcomes() {
			told[o]++
		}
		if diff := cmp.Diff(map[cache.Outcome]int{cache.Miss: 3, cache.GetError: 1, cache.Skipped: 2}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// If the content of a key is unknown, nothing is written to it; a broken value of the cache itself
// is replaced.
func TestTiersWriteOnlyWhatTheyKnow(t *testing.T) {
	for name, c := range map[string]struct {
		get   error
		wrote bool
	}{
		"absent":        {nil, true},
		"broken":        {cache.MismatchChecksum, true},
		"somebody's":    {cache.MismatchType, false},
		"unknown":       {errors.New("down"), false},
		"not asked for": {cache.ErrSkipped, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			wrote := false
			store := cachetest.Faulty{Store: memory(t, 1<<20), Before: func(_ context.Context, op cachetest.Op, _ string) error {
				if op == cachetest.Get {
					return c.get
				}
				wrote = true
				return nil
			}}
			r := cache.NewRetriever(fixed(answer(), nil), cache.Selected, append(near(memory(t, 1<<20)), farTier(t, store)), nil)
			if _, err := r.Retrieve(t.Context(), question("q")); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if wrote != c.wrote {
				t.Errorf("%s: written: %v, want %v", name, wrote, c.wrote)
			}
		})
	}
}
