//go:build unix

package library_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
)

// BenchmarkFilter measures a question to 100,000 chunks: without a filter, and with filters that
// match 1 %, 50 % and all of the documents, scattered or contiguous. "new" is the cost of a filter
// that is not cached, for documents with and without distinct attributes.
func BenchmarkFilter(b *testing.B) {
	const documents = 20_000
	word, r := wordsOf(1), rand.New(rand.NewPCG(1, 2))
	l, err := library.Open(b.Context(), store.Memory, benchDeps(), library.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, id := range []string{"few", "own"} {
		if err := l.CreateBase(b.Context(), id); err != nil {
			b.Fatal(err)
		}
	}
	few, own := make([]chunk.Document, documents), make([]chunk.Document, documents)
	for i := range few {
		few[i] = chunk.Document{
			ID: fmt.Sprintf("d%06d", i), Text: markdown(i, word, r), Markdown: true,
			Attributes: map[string]any{"apart": i % 100, "together": i * 100 / documents, "all": true},
		}
		own[i] = chunk.Document{ID: few[i].ID, Text: "short", Attributes: map[string]any{"number": i, "day": fmt.Sprintf("2024-%d", i), "tags": []string{"a", "b"}}}
	}
	for id, list := range map[string][]chunk.Document{"few": few, "own": own} {
		if _, err := l.Put(b.Context(), id, list...); err != nil {
			b.Fatal(err)
		}
	}
	l.Quiet()
	base, qs := l.Base("few"), benchQueries()
	ask := func(base *knowledge.Base, i int, f *filter.Filter) {
		q := qs[i%len(qs)]
		q.Filter = f
		if _, err := base.Retrieve(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
	lt := func(key string, n int) *filter.Filter {
		return &filter.Filter{Type: filter.Lt, Key: key, Value: float64(n)}
	}
	for _, c := range []struct {
		name   string
		filter *filter.Filter
	}{
		{"none", nil}, {"apart=1%", lt("apart", 1)}, {"apart=50%", lt("apart", 50)}, {"together=1%", lt("together", 1)}, {"together=50%", lt("together", 50)},
		{"all", &filter.Filter{Type: filter.Eq, Key: "all", Value: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			knowledgetest.Measure(b, func(i int) { ask(base, i, c.filter) })
		})
	}
	b.Run("new/few", func(b *testing.B) {
		knowledgetest.Measure(b, func(i int) {
			ask(base, i, &filter.Filter{Type: filter.Nin, Key: "apart", Value: []any{float64(i), 7.0}})
		})
	})
	b.Run("new/own", func(b *testing.B) {
		knowledgetest.Measure(b, func(i int) { ask(l.Base("own"), i, lt("number", i)) })
	})
}
