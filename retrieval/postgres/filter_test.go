package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/postgres"
)

// Postgres matches exactly what filter.Match matches, whatever the attributes and the filter.
func TestFiltersMatchTheSameDocuments(t *testing.T) {
	s, _ := newBase(t, "a")
	l := acquire(t, s, "a")
	all := map[string]map[string]any{}
	var documents []engine.Document
	for i := range 300 {
		id := fmt.Sprint("doc", i)
		all[id] = attributes().Example(i)
		documents = append(documents, document(id, all[id], "needle"))
	}
	write(t, l, "aa", "", documents)
	rapid.Check(t, func(t *rapid.T) {
		f := filters(3).Draw(t, "filter")
		compareMatches(t, s, all, &f)
	})
}

func compareMatches(t *rapid.T, s *postgres.Server, all map[string]map[string]any, f *filter.Filter) {
	found, err := s.Search(t.Context(), &engine.Search{Bases: []string{"a"}, Terms: terms("needle"), Depth: len(all), Filter: f})
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	got := map[string]bool{}
	for _, c := range found.Candidates {
		got[c.Doc] = true
	}
	for id, attributes := range all {
		if want := f.Match(attributes); got[id] != want {
			t.Fatalf("%s with %#v: got %v, want %v", f, attributes, got[id], want)
		}
	}
}

// keys, texts and numbers are few, so that filters match now and then; some are awkward.
func keys() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "it's", `"q\`, "nul\x00", "\x01", "ключ", ""})
}

func texts() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "ab", "B", "Z", "é", "\U0001F600", "\uFFFD", "7", "true", "a\x00", "a\x00b", "a\x01", "a\x02", "%_", `\`, "'", "2024-03-05"}),
		rapid.StringN(0, 3, -1))
}

func numbers() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.SampledFrom([]float64{0, 1, -1, 7, 0.1, 0.30000000000000004, 1e300, -1e300, 1e-300, 9007199254740993, 5e-324}),
		rapid.Float64Range(-10, 10))
}

func scalars() *rapid.Generator[any] {
	return rapid.OneOf(rapid.Map(texts(), func(s string) any { return s }), rapid.Map(numbers(), func(f float64) any { return f + 0 }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }))
}

func attributes() *rapid.Generator[map[string]any] {
	list := rapid.Map(rapid.SliceOfN(texts(), 0, 3), func(l []string) any { return l })
	return rapid.MapOfN(keys(), rapid.OneOf(scalars(), list), 0, 6)
}

func filters(depth int) *rapid.Generator[filter.Filter] {
	return rapid.Custom(func(t *rapid.T) filter.Filter {
		types := filter.Types()
		if depth == 0 {
			types = slices.DeleteFunc(types, func(is filter.Type) bool { return is == filter.And || is == filter.Or })
		}
		f := filter.Filter{Type: rapid.SampledFrom(append(types, "unknown")).Draw(t, "type")}
		switch f.Type {
		case filter.And, filter.Or:
			f.Filters = rapid.SliceOfN(filters(depth-1), 0, 3).Draw(t, "filters")
			return f
		case filter.In, filter.Nin:
			f.Value = rapid.SliceOfN(scalars(), 0, 4).Draw(t, "values")
		default:
			f.Value = scalars().Draw(t, "value")
		}
		if rapid.IntRange(0, 20).Draw(t, "invalid") == 0 {
			f.Value = nil
		}
		f.Key = keys().Draw(t, "key")
		return f
	})
}

// A filter is also applied to a document that is read by its id.
func TestPassageIsFiltered(t *testing.T) {
	s, _ := newBase(t, "a")
	write(t, acquire(t, s, "a"), "aa", "", []engine.Document{document("one", map[string]any{"audience": "staff"}, "Text.")})
	for audience, want := range map[string]int{"staff": 1, "public": 0} {
		f := &filter.Filter{Type: filter.Eq, Key: "audience", Value: audience}
		chunks, err := s.Passage(t.Context(), "a", "one", 0, 9, f, "")
		if err != nil || len(chunks) != want {
			t.Errorf("%s: %d chunks, %v", audience, len(chunks), err)
		}
	}
	if chunks, err := s.Passage(t.Context(), "a", strings.Repeat("x", 5000), 0, 9, nil, ""); err != nil || len(chunks) != 0 {
		t.Errorf("unknown document: %d chunks, %v", len(chunks), err)
	}
}
