package cache_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"sidenote/cache"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory returns a Memory that is closed at the end of the test.
func memory(t testing.TB, maxBytes int64) *cache.Memory {
	t.Helper()
	m, err := cache.NewMemory(maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// near returns a single tier: a store that never blocks.
func near(s cache.Store) []cache.Tier {
	return []cache.Tier{{Name: "memory", Store: s, TTL: 10 * time.Minute, EmptyTTL: 30 * time.Second}}
}

// question returns a query that can be cached.
func question(text string) retrieval.Query {
	settings := retrieval.DefaultSettings()
	settings.Thresholds = []retrieval.Threshold{{Knowledge: "docs", Relevance: 0.5}, {Knowledge: "faq", Relevance: 0.25}}
	return retrieval.Query{
		Tenant:   "acme",
		Filter:   &filter.Filter{Type: filter.Eq, Key: "audience", Value: "readers"},
		Bases:    []retrieval.Ref{{Knowledge: "docs", Generation: "ab12"}, {Knowledge: "faq", Generation: "cd34"}},
		Text:     text,
		Previous: []retrieval.Turn{{Text: "before", Weight: 0.5}, {Text: "long before", Weight: 0.25}},
		Encoding: "o200k_base",
		Settings: settings,
	}
}
