package cache_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/retrieval"
)

// answering returns a find that answers with a query, and counts its calls in asked.
func answering(query string, asked *int) func(context.Context) (retrieval.Plan, error) {
	return func(context.Context) (retrieval.Plan, error) {
		*asked++
		return retrieval.Plan{Queries: []string{query}}, nil
	}
}

// A plan is found only under the exact tenant and key, wherever one part of it ends and the next
// begins.
func TestPlansKeys(t *testing.T) {
	plans := cache.NewPlans(near(memory(t, 1<<20))[0], nil)
	keys := [][]string{
		{"acme", "credential", "openai", "m", "question", "turn"}, {"umbrella", "credential", "openai", "m", "question", "turn"},
		{"acme", "credential2", "openai", "m", "question", "turn"}, {"acme", "credential", "openai", "m", "question"},
		{"acme", "credential", "openai", "m", "questionturn"}, {"acme", "credentialopenai", "m", "question", "turn"}, {"acmecredential"},
	}
	for round := range 3 { // the last one from the decoded values beside the store
		for i, key := range keys {
			asked, want := 0, strings.Join(key, "|")
			got, err := plans.Plan(t.Context(), key[0], key[1:], answering(want, &asked))
			if err != nil || !slices.Equal(got.Queries, []string{want}) || (asked > 0) != (round == 0) {
				t.Errorf("round %d, key %d: %v, %v, asked %d times", round, i, got, err, asked)
			}
		}
	}
}

// Errors are not cached: the next caller calls find again.
func TestPlansKeepNoErrors(t *testing.T) {
	plans := cache.NewPlans(near(memory(t, 1<<20))[0], nil)
	for range 2 {
		if _, err := plans.Plan(t.Context(), "acme", nil, func(context.Context) (retrieval.Plan, error) {
			return retrieval.Plan{}, retrieval.ErrBadPlan
		}); !errors.Is(err, retrieval.ErrBadPlan) {
			t.Fatalf("error is %v", err)
		}
	}
	asked := 0
	if got, err := plans.Plan(t.Context(), "acme", nil, answering("q", &asked)); err != nil || asked != 1 || len(got.Queries) != 1 {
		t.Errorf("after errors: %v, %v, asked %d times", got, err, asked)
	}
}

// Callers with one key share one call, which continues when the first of them leaves.
func TestPlansShareAFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plans := cache.NewPlans(cache.Tier{Name: "memory", Store: &ttls{}, TTL: time.Minute}, nil)
		calls := make(chan struct{}, 2)
		find := func(ctx context.Context) (retrieval.Plan, error) {
			calls <- struct{}{}
			select {
			case <-time.After(time.Second): // time of the bubble
			case <-ctx.Done():
			}
			return retrieval.Plan{Queries: []string{"q"}}, ctx.Err()
		}
		hasty, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		first := make(chan error, 1)
		go func() {
			_, err := plans.Plan(hasty, "acme", []string{"k"}, find)
			first <- err
		}()
		synctest.Wait()
		got, err := plans.Plan(t.Context(), "acme", []string{"k"}, find)
		if err != nil || len(got.Queries) != 1 || len(calls) != 1 {
			t.Errorf("second: %v, %v, %d calls", got, err, len(calls))
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("first: %v", err)
		}
	})
}
