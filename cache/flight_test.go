package cache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/cache"
	"sidenote/retrieval"
	"sidenote/retrieval/retrievaltest"
)

// Many callers share one search. Each returns when its own time is up, and a result that is too
// late for all of them is there for the next one.
func TestRetrieverFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var searches tally
		engine := retrievaltest.Faulty{Next: fixed(answer(), nil), Before: func(ctx context.Context, q retrieval.Query) error {
			searches.add(q.Text)
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		r := cache.NewRetriever(engine, cache.Candidates, near(memory(t, 1<<20)), nil)
		start := time.Now()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				wait := time.Duration(i+1) * 10 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				res, err := r.Retrieve(ctx, question("q"))
				if took := time.Since(start); took != wait {
					t.Errorf("caller with %v left after %v", wait, took)
				}
				if !errors.Is(err, retrieval.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || res.Reason != retrieval.ReasonTimeout {
					t.Errorf("caller that left: %q, %v", res.Reason, err)
				}
			})
		}
		all.Wait()
		<-time.After(time.Second)
		res, err := r.Retrieve(t.Context(), question("q"))
		if err != nil || res.Cache != retrieval.CacheHit || searches.counts["q"] != 1 {
			t.Errorf("afterwards: %s, %v, after %d searches", res.Cache, err, searches.counts["q"])
		}
	})
}

// All waiting callers get one result; another question does not wait for it.
func TestRetrieverFlightIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var searches tally
		release := make(chan struct{})
		engine := retrievaltest.Faulty{Next: fixed(answer(), nil), Before: func(_ context.Context, q retrieval.Query) error {
			searches.add(q.Text)
			if q.Text == "slow" {
				<-release
			}
			return nil
		}}
		r := cache.NewRetriever(engine, cache.Selected, near(memory(t, 1<<20)), nil)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got, err := r.Retrieve(t.Context(), question("slow")); err != nil || cmp.Diff(answer(), got, like) != "" {
					t.Errorf("%v: %s", err, cmp.Diff(answer(), got, like))
				}
			})
		}
		synctest.Wait()
		if _, err := r.Retrieve(t.Context(), question("quick")); err != nil {
			t.Error(err)
		}
		close(release)
		all.Wait()
		if diff := cmp.Diff(map[string]int{"slow": 1, "quick": 1}, searches.counts); diff != "" {
			t.Errorf("searches (-want +got):\n%s", diff)
		}
	})
}

// A failed search is an error for the waiting callers, and does not affect later ones; nor does a
// search that ignores its deadline.
func TestRetrieverSearchFails(t *testing.T) {
	for name, c := range map[string]struct {
		first func(ctx context.Context) error
		want  retrieval.Reason
	}{
		"error":    {func(context.Context) error { return errors.New("down") }, retrieval.ReasonError},
		"panic":    {func(context.Context) error { panic("index out of range") }, retrieval.ReasonError},
		"deadline": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, retrieval.ReasonTimeout},
		"deaf":     {func(context.Context) error { <-time.After(time.Hour); return nil }, retrieval.ReasonTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var searches tally
				engine := retrievaltest.Faulty{Next: fixed(answer(), nil), Before: func(ctx context.Context, q retrieval.Query) error {
					if searches.add(q.Text) == 1 {
						return c.first(ctx)
					}
					return nil
				}}
				r := cache.NewRetriever(engine, cache.Candidates, near(memory(t, 1<<20)), nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				res, err := r.Retrieve(ctx, question("q"))
				if !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != c.want {
					t.Errorf("first: %q, %v", res.Reason, err)
				}
				if res, err = r.Retrieve(t.Context(), question("q")); err != nil || len(res.Sources) == 0 {
					t.Errorf("second: %d sources, %v", len(res.Sources), err)
				}
				<-time.After(2 * time.Hour) // a search that ignores its context ends, too
			})
		})
	}
}

// A caller whose time is up before it asks does not start a search.
func TestRetrieverCallerGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	searched := func(context.Context, retrieval.Query) error { t.Error("searched"); return nil }
	r := cache.NewRetriever(retrievaltest.Faulty{Next: fixed(answer(), nil), Before: searched}, cache.Selected, near(memory(t, 1<<20)), nil)
	if _, err := r.Retrieve(ctx, question("q")); !errors.Is(err, retrieval.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Both levels together: a base that was too late for one request is answered from the candidates'
// cache in the next one; only then is the complete result stored.
func TestRetrieverLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var searches tally
		store := memory(t, 1<<20)
		base := func(id string, delay time.Duration) retrieval.Retriever {
			return cache.NewRetriever(retrieval.Func(
				func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
					searches.add(id)
					<-time.After(delay)
					return retrieval.Result{Bases: q.Bases, Sources: []retrieval.Source{{Knowledge: id, Text: id, Score: 1}}}, nil
				}), cache.Candidates, near(store), nil)
		}
		bases := map[string]retrieval.Retriever{"docs": base("docs", time.Millisecond), "faq": base("faq", time.Second)}
		whole := cache.NewRetriever(&retrieval.Pipeline{
			Bases: func(id string) retrieval.Retriever { return bases[id] },
			Terms: func(text string) []string { return []string{text} },
		}, cache.Selected, near(store), nil)
		type got struct {
			Sources int
			Reason  retrieval.Reason
			Cache   retrieval.CacheState
		}
		for i, want := range []got{
			{1, retrieval.ReasonTimeout, retrieval.CacheMiss},
			{2, retrieval.ReasonNone, retrieval.CacheMiss},
			{2, retrieval.ReasonNone, retrieval.CacheHit},
		} {
			res, err := whole.Retrieve(t.Context(), question("q"))
			if diff := cmp.Diff(want, got{len(res.Sources), res.Reason, res.Cache}); diff != "" || err != nil {
				t.Errorf("request %d: %v (-want +got):\n%s", i, err, diff)
			}
			<-time.After(2 * time.Second)
		}
		if diff := cmp.Diff(map[string]int{"docs": 1, "faq": 1}, searches.counts); diff != "" {
			t.Errorf("searches (-want +got):\n%s", diff)
		}
	})
}
