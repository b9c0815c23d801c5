package cache_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sidenote/cache"
	"sidenote/retrieval"
)

// An embedFunc is an embedder.
type embedFunc func(ctx context.Context, texts []string) ([][]float32, error)

func (f embedFunc) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	return f(ctx, texts)
}

// A vector is made once per tenant, space and text; the same question of another tenant is
// embedded again, so that tenants cannot learn from each other.
func TestQuestions(t *testing.T) {
	var asked tally
	space := retrieval.Space{Model: "m"}
	embedder := embedFunc(func(_ context.Context, texts []string) ([][]float32, error) {
		asked.add(space.String() + ": " + texts[0])
		return [][]float32{{float32(len(texts[0])), -.5}}, nil
	})
	q := cache.NewQuestions(embedder, func() retrieval.Space { return space }, near(memory(t, 1<<20))[0], nil)
	ask := func(tenant, text string) {
		t.Helper()
		for range 2 {
			v, err := q.Question(t.Context(), tenant, text)
			if err != nil || !slices.Equal(v, []float32{float32(len(text)), -.5}) {
				t.Errorf("%s, %s: %v, %v", tenant, text, v, err)
			}
		}
	}
	ask("a", "leave")
	ask("a", "sick leave")
	ask("b", "leave")
	space.Dimensions = 5
	ask("a", "leave")
	if asked.counts["m: leave"] != 2 || asked.counts["m: sick leave"] != 1 || asked.counts["m/5: leave"] != 1 {
		t.Errorf("asked %v", asked.counts)
	}
}

// A vector that is late for one request is there for the next; a failed one is requested again.
func TestLateQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked tally
		embedder := embedFunc(func(_ context.Context, texts []string) ([][]float32, error) {
			if n := asked.add(texts[0]); texts[0] == "wrong" && n == 1 {
				return nil, errors.New("down")
			} else if texts[0] == "short" {
				return nil, nil
			}
			<-time.After(time.Second)
			return [][]float32{{1}}, nil
		})
		q := cache.NewQuestions(embedder, func() retrieval.Space { return retrieval.Space{} }, near(memory(t, 1<<20))[0], nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := q.Question(ctx, "t", "late"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		<-time.After(time.Second)
		start = time.Now()
		if v, err := q.Question(t.Context(), "t", "late"); len(v) != 1 || err != nil || time.Since(start) != 0 || asked.counts["late"] != 1 {
			t.Errorf("%v, %v after %v, asked %v", v, err, time.Since(start), asked.counts)
		}
		if _, err := q.Question(t.Context(), "t", "wrong"); err == nil {
			t.Error("a vector of a service that is down")
		}
		if v, err := q.Question(t.Context(), "t", "wrong"); len(v) != 1 || err != nil {
			t.Errorf("%v, %v", v, err)
		}
		if v, err := q.Question(t.Context(), "t", "short"); err == nil {
			t.Errorf("%v of nothing", v)
		}
	})
}

// A store that mixes up its values never gives the vector of another question.
func TestMixedUpQuestions(t *testing.T) {
	var last []byte
	embedder := embedFunc(func(_ context.Context, texts []string) ([][]float32, error) {
		return [][]float32{{float32(len(texts[0]))}}, nil
	})
	q := cache.NewQuestions(embedder, func() retrieval.Space { return retrieval.Space{} }, cache.Tier{Name: "memory", Store: oneValue{&last}, TTL: time.Hour, EmptyTTL: time.Hour}, nil)
	for _, text := range []string{"a", "four", "longest"} {
		if v, err := q.Question(t.Context(), "t", text); err != nil || !slices.Equal(v, []float32{float32(len(text))}) {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
}

// oneValue is a store that returns the last value for every key.
type oneValue struct{ last *[]byte }

func (s oneValue) Get(context.Context, string) ([]byte, error) { return *s.last, nil }

func (s oneValue) Set(_ context.Context, _ string, value []byte, _ time.Duration) error {
	*s.last = value
	return nil
}
