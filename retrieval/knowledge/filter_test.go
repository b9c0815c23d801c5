package knowledge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/index"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// drawFilter draws a filter of any type.
func drawFilter(t *rapid.T, depth int) filter.Filter {
	value := rapid.SampledFrom([]any{"ant", "bee", "", 0.0, 1.0, true, false})
	kinds := []filter.Type{
		filter.Eq, filter.Ne, filter.Gt, filter.Gte, filter.Lt, filter.Lte,
		filter.In, filter.Nin, filter.Prefix, filter.And, filter.Or,
	}
	if depth == 0 {
		kinds = kinds[:len(kinds)-2]
	}
	f := filter.Filter{Type: rapid.SampledFrom(kinds).Draw(t, "type")}
	if f.Type == filter.And || f.Type == filter.Or {
		for range rapid.IntRange(1, 3).Draw(t, "filters") {
			f.Filters = append(f.Filters, drawFilter(t, depth-1))
		}
		return f
	}
	f.Key = rapid.SampledFrom([]string{"k", "l", "m", "none"}).Draw(t, "key")
	switch f.Type {
	case filter.In, filter.Nin:
		f.Value = rapid.SliceOfN(value, 0, 3).Draw(t, "values")
	case filter.Prefix:
		f.Value = "ant"
	default:
		f.Value = value.Draw(t, "value")
	}
	return f
}

//go:fix inline
func sameAs(f filter.Filter) *filter.Filter { return new(f) }

// The result of a filtered question is the whole ranking without hidden documents, cut off at k:
// nothing hidden is returned, and no score or order changes. This holds for any number of
// segments, with deleted and rewritten documents.
func TestFilterIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		attributes := map[string]map[string]any{}
		groups := make([][]chunk.Document, rapid.IntRange(1, 3).Draw(t, "segments"))
		for i := range groups {
			for _, id := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-d][0-9]`), 1, 12, rapid.ID[string]).Draw(t, "ids") {
				words := rapid.SliceOfN(rapid.SampledFrom([]string{"ant", "bee", "cat", "dog", "\n\n# S\n\n"}), 1, 12).Draw(t, "words")
				d := chunk.Document{ID: id, Text: strings.Join(words, " "), Markdown: true, Attributes: knowledgetest.DrawAttributes(t)}
				groups[i] = append(groups[i], d)
				attributes[id] = d.Attributes
			}
		}
		c, err := knowledge.Segmented(context.Background(), deps(), groups...)
		if err != nil || c.Documents() != len(attributes) {
			t.Fatalf("%d documents, %v", c.Documents(), err)
		}
		base := knowledge.New("kb")
		base.Swap(c)
		for i := range c.Documents() {
			h := c.DocumentAt(i)
			for key, v := range attributes[h.ID] {
				if n, ok := v.(int); ok {
					attributes[h.ID][key] = float64(n)
				}
			}
			if diff := cmp.Diff(attributes[h.ID], h.Attributes, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", h.ID, diff)
			}
		}
		for range 8 {
			q := retrieval.Query{Text: "ant bee cat", Settings: retrieval.Settings{NumCandidates: 1000}}
			whole, err := base.Retrieve(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			q.Filter = new(drawFilter(t, 2))
			q.Settings.NumCandidates = rapid.IntRange(1, 20).Draw(t, "k")
			var want []retrieval.Source
			for _, s := range whole.Sources {
				if q.Filter.Match(attributes[s.Doc]) && len(want) < q.Settings.NumCandidates {
					want = append(want, s)
				}
			}
			for range 2 { // the second time from the cache
				got, err := base.Retrieve(context.Background(), q)
				if diff := cmp.Diff(want, got.Sources, cmpopts.EquateEmpty()); diff != "" || err != nil {
					t.Fatalf("%s: %v (-want +got):\n%s", q.Filter, err, diff)
				}
				// The floor depends only on the best hits that pass.
				if cmp.Equal(bestOf(got), bestOf(whole)) && got.Floor != whole.Floor {
					t.Fatalf("%s: floor %v, of all %v", q.Filter, got.Floor, whole.Floor)
				}
			}
		}
	})
}

// bestOf returns the sources that the floor is computed from.
func bestOf(r retrieval.Result) []retrieval.Source { return r.Sources[:min(3, len(r.Sources))] }

// attributed returns a base of a hundred documents of ten kinds.
func attributed(t testing.TB) *knowledge.Base {
	t.Helper()
	var documents []chunk.Document
	for i := range 100 {
		documents = append(documents, chunk.Document{
			ID: fmt.Sprintf("d%03d", i), Text: fmt.Sprintf("ant bee number %d", i),
			Attributes: map[string]any{"kind": fmt.Sprintf("k%d", i%10), "even": i%2 == 0, "of": []string{"all", fmt.Sprint("m", i%3)}, "n": i / 50},
		})
	}
	documents = append(documents, chunk.Document{ID: "plain", Text: "ant without attributes"})
	c, _, err := knowledge.FromDocuments(t.Context(), documents, deps())
	if err != nil {
		t.Fatal(err)
	}
	b := knowledge.New("kb")
	b.Swap(c)
	return b
}

// Many concurrent callers with more filters than are cached never get another filter's result.
func TestFiltersAtOnce(t *testing.T) {
	b := attributed(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 120 {
				kind := fmt.Sprintf("k%d", (i+j)%10)
				even := j%3 == 0
				f := &filter.Filter{Type: filter.And, Filters: []filter.Filter{
					{Type: filter.Eq, Key: "kind", Value: kind}, {Type: filter.In, Key: "even", Value: []any{even}},
				}}
				res, err := b.Retrieve(t.Context(), retrieval.Query{Text: "ant bee", Filter: f, Settings: retrieval.DefaultSettings()})
				want := 0
				if ((i+j)%10%2 == 0) == even {
					want = 10
				}
				if err != nil || len(res.Sources) != want {
					t.Errorf("%s: %d sources, %v", f, len(res.Sources), err)
				}
				for _, s := range res.Sources {
					if s.Doc[3:] != kind[1:] {
						t.Errorf("%s: got %s", f, s.Doc)
					}
				}
			}
		})
	}
	all.Wait()
	if n := b.Content().KeptFilters(); n != knowledge.MostFilters {
		t.Errorf("%d filters are kept", n)
	}
}

// A filter that matches nothing gives an empty result; a filter may also match everything.
func TestFilterOfAllAndNone(t *testing.T) {
	b := attributed(t)
	q := retrieval.Query{Text: "ant", Settings: retrieval.Settings{NumCandidates: 1000}, Filter: &filter.Filter{Type: filter.Eq, Key: "kind", Value: "other"}}
	if res, err := b.Retrieve(t.Context(), q); err != nil || res.Reason != retrieval.ReasonNoMatch || len(res.Sources) > 0 {
		t.Errorf("none: %+v, %v", res, err)
	}
	q.Filter = &filter.Filter{Type: filter.Ne, Key: "kind", Value: "other"}
	if res, err := b.Retrieve(t.Context(), q); err != nil || len(res.Sources) != 101 {
		t.Errorf("all: %d, %v", len(res.Sources), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q.Filter = &filter.Filter{Type: filter.Ne, Key: "kind", Value: "another"}
	if res, err := b.Retrieve(ctx, q); err == nil || !res.Reason.Failed() {
		t.Errorf("too late: %+v, %v", res, err)
	}
}

func TestAttributes(t *testing.T) {
	c := attributed(t).Content()
	want := []index.Attribute{
		{Key: "even", Documents: 100, Types: []string{"boolean"}, Examples: []any{false, true}},
		{Key: "kind", Documents: 100, Types: []string{"string"}, Examples: []any{"k0", "k1", "k2", "k3", "k4"}},
		{Key: "n", Documents: 100, Types: []string{"number"}, Examples: []any{0.0, 1.0}},
		{Key: "of", Documents: 100, Types: []string{"list"}, Examples: []any{"all", "m0", "m1", "m2"}},
	}
	if diff := cmp.Diff(want, c.Attributes()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := c.DocumentAt(1).Attributes; got["kind"] != "k1" || got["n"] != 0.0 || !slices.Equal(got["of"].([]string), []string{"all", "m1"}) {
		t.Errorf("held: %v", got)
	}
	if got := c.DocumentAt(100); got.ID != "plain" || got.Attributes != nil {
		t.Errorf("held: %+v", got)
	}
}
