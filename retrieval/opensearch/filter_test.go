package opensearch_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
)

// Values that are easy to confuse: types, prefixes of each other, orders, and line breaks.
var filterTexts = []string{"", "1", "a", "ab", "a\x00", "b", "B", "ä", "z\n\"", "\U0001F600", "\uFFFD", "true", "2024-01-02"}

var filterNumbers = []float64{0, 1, -1, 2, 1.5, -1e300, 1e300, 5e-324, -0.5}

func drawValue(t *rapid.T) any {
	return rapid.OneOf(
		rapid.Map(rapid.SampledFrom(filterTexts), func(s string) any { return s }),
		rapid.Map(rapid.SampledFrom(filterNumbers), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
	).Draw(t, "value")
}

var filterKeys = []string{"k", "k1", "1:k", "ü"}

func drawFilter(t *rapid.T, depth int) filter.Filter {
	types := filter.Types()
	if depth == 0 {
		types = types[:len(types)-2]
	}
	f := filter.Filter{Type: rapid.SampledFrom(types).Draw(t, "type")}
	switch f.Type {
	case filter.And, filter.Or:
		for range rapid.IntRange(1, 3).Draw(t, "filters") {
			f.Filters = append(f.Filters, drawFilter(t, depth-1))
		}
		return f
	case filter.In, filter.Nin:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "values") {
			list = append(list, drawValue(t))
		}
		f.Value = list
	default:
		f.Value = drawValue(t)
	}
	f.Key = rapid.SampledFrom(filterKeys).Draw(t, "key")
	return f
}

func drawAttributes(t *rapid.T) map[string]any {
	attributes := map[string]any{}
	for _, key := range filterKeys {
		switch rapid.IntRange(0, 2).Draw(t, "has") {
		case 1:
			attributes[key] = drawValue(t)
		case 2:
			attributes[key] = rapid.SliceOfN(rapid.SampledFrom(filterTexts), 0, 2).Draw(t, "list")
		}
	}
	return attributes
}

// TestFiltersMatchAsFilterMatch checks generated filters on generated attributes against Match.
func TestFiltersMatchAsFilterMatch(t *testing.T) {
	s, ctx := open(t), t.Context()
	l := write(t, s, "b")
	attributes := map[string]map[string]any{}
	var documents []engine.Document
	for i := range 300 {
		id := fmt.Sprint("d", i)
		a := rapid.Custom(drawAttributes).Example(i)
		attributes[id] = a
		d := embedded(document(id, "word"), unit(uint64(i), 8))
		d.Attributes = chunk.Encoded(a)
		documents = append(documents, d)
	}
	must(t, l.Put(ctx, documents, nil))
	must(t, l.Commit(ctx, "aa", "m/8"))
	some := 0
	rapid.Check(t, func(rt *rapid.T) {
		f := drawFilter(rt, 2)
		var want []string
		for id, a := range attributes {
			if f.Match(a) {
				want = append(want, id+"/0")
			}
		}
		slices.Sort(want)
		if len(want) > 0 {
			some++
		}
		q := engine.Search{Bases: []string{"b"}, Depth: 300, Filter: &f}
		q.Terms = terms("word")
		if got := found(t, s, &q); !slices.Equal(got, want) {
			rt.Errorf("%s by words: %d of %d match", f.String(), len(got), len(want))
		}
		q.Terms, q.Vector = nil, unit(1, 8)
		if got := found(t, s, &q); !slices.Equal(got, want) {
			rt.Errorf("%s by vector: %d of %d match", f.String(), len(got), len(want))
		}
	})
	if some == 0 {
		t.Error("no filter matched anything")
	}
}
