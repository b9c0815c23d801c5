package vectorstore_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"sidenote/cache"
	"sidenote/retrieval"
	"sidenote/retrieval/retrievaltest"
)

// Changes of attributes and deletions take effect in caches, too: the same query with the same
// filter does not find the document or a deleted text again.
func TestCachesFollowTheStore(t *testing.T) {
	var mu sync.Mutex
	docs := stub{
		{ID: "bonus", Text: "The bonus is large.", Attributes: map[string]any{"audience": "public"}},
		{ID: "leave", Text: "The leave is sixty weeks.", Attributes: map[string]any{"audience": "public"}},
	}
	s := newService(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now := slices.Clone(docs)
		mu.Unlock()
		now.ServeHTTP(w, r)
	}))
	base := open(t, s.URL, nil)
	<-base.FirstRead()
	memory, err := cache.NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = memory.Close() }()
	cached := cache.NewRetriever(base, cache.Candidates, []cache.Tier{{Name: "memory", Store: memory, TTL: time.Minute}}, nil)
	f := func(text string, state retrieval.CacheState, want ...string) {
		t.Helper()
		q := query(text)
		q.Filter, q.Bases = eq("audience", "public"), []retrieval.Ref{base.Ref()}
		res, err := cached.Retrieve(t.Context(), q)
		var got []string
		for _, source := range res.Sources {
			got = append(got, source.Text)
		}
		if err != nil || !slices.Equal(got, want) || res.Cache != state {
			t.Errorf("%q: %q of a %s, %v; want %q of a %s", text, got, res.Cache, err, want, state)
		}
	}
	change := func(i int, d retrievaltest.Document) {
		t.Helper()
		mu.Lock()
		docs[i] = d
		mu.Unlock()
		if err := base.Refresh(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	f("large bonus", retrieval.CacheMiss, "The bonus is large.")
	f("large bonus", retrieval.CacheHit, "The bonus is large.")
	change(0, retrievaltest.Document{ID: "bonus", Text: "The bonus is large.", Attributes: map[string]any{"audience": "staff"}})
	f("large bonus", retrieval.CacheMiss)
	f("sixty weeks leave", retrieval.CacheMiss, "The leave is sixty weeks.")
	change(1, retrievaltest.Document{ID: "leav2", Text: "The leave is forty weeks.", Attributes: map[string]any{"audience": "public"}})
	f("sixty weeks leave", retrieval.CacheMiss, "The leave is forty weeks.")
}
