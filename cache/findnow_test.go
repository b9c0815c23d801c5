package cache_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/retrieval"
)

// hasty is an engine that answers without waiting, and can panic after half of its answer.
type hasty struct {
	searches int
	panics   bool
}

func (h *hasty) AnswersAtOnce(retrieval.Query) bool { return true }

func (h *hasty) Retrieve(_ context.Context, q retrieval.Query) (res retrieval.Result, err error) {
	h.searches++
	res = retrieval.Result{Bases: q.Bases, Sources: []retrieval.Source{{Knowledge: "docs", Doc: "a.md"}}}
	if h.panics {
		panic("half an answer")
	}
	return res, nil
}

// An answer found without waiting is stored; there is no search for a caller that has left, and
// nothing is left of an answer whose search panicked.
func TestFoundAtOnce(t *testing.T) {
	memory, err := cache.NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Close() }()
	engine := &hasty{}
	r := cache.NewRetriever(engine, cache.Selected, []cache.Tier{{Name: "memory", Store: memory, TTL: time.Hour, EmptyTTL: time.Hour}}, nil)
	gone, leave := context.WithCancel(t.Context())
	leave()
	res, err := r.Retrieve(gone, question("one"))
	if !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonTimeout || engine.searches != 0 {
		t.Errorf("left: %q, %v, %d searches", res.Reason, err, engine.searches)
	}
	for _, want := range []retrieval.CacheState{retrieval.CacheMiss, retrieval.CacheHit} {
		if res, err = r.Retrieve(t.Context(), question("one")); err != nil || res.Cache != want || len(res.Sources) != 1 || engine.searches != 1 {
			t.Errorf("%s, want %s: %d sources, %v, %d searches", res.Cache, want, len(res.Sources), err, engine.searches)
		}
	}
	engine.panics = true
	res, err = r.Retrieve(t.Context(), question("two"))
	if !errors.Is(err, retrieval.ErrUnavailable) || res.Reason != retrieval.ReasonError || len(res.Sources) != 0 {
		t.Errorf("panicked: %q, %d sources, %v", res.Reason, len(res.Sources), err)
	}
}
