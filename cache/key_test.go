package cache_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sidenote/cache"
	"sidenote/retrieval"
	"sidenote/retrieval/filter"
)

// vary calls visit once for every leaf of v, and for every way in which a list can change, with
// only that changed, and then restores it. An unknown kind of field fails the test, because a new
// field must become part of the key.
func vary(t *testing.T, path string, v reflect.Value, visit func(path string)) {
	t.Helper()
	old := reflect.ValueOf(v.Interface())
	change := func(what string, to any) {
		v.Set(reflect.ValueOf(to).Convert(v.Type()))
		visit(path + " " + what)
		v.Set(old)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			switch v.Type().Field(i).Type {
			case reflect.TypeFor[*retrieval.Planning]():
				continue // nil after Prepare, so before every cache
			case reflect.TypeFor[retrieval.Reranker]():
				continue // defined by its settings
			case reflect.TypeFor[[]retrieval.Hit]():
				continue // a buffer
			case reflect.TypeFor[map[string][]retrieval.SynonymRule]():
				continue // identified by their digest
			}
			vary(t, path+"."+v.Type().Field(i).Name, v.Field(i), visit)
		}
	case reflect.String:
		change("longer", v.String()+"x")
		change("shorter", v.String()[:max(0, v.Len()-1)])
		change("other", "~")
	case reflect.Int, reflect.Int64:
		change("one more", v.Int()+1)
		change("negated", -v.Int()-2)
		change("huge", int64(math.MaxInt64))
	case reflect.Float64:
		change("more", v.Float()+0.5)
		change("a bit more", math.Nextafter(v.Float(), 9))
	case reflect.Slice:
		for i := range v.Len() {
			vary(t, fmt.Sprintf("%s[%d]", path, i), v.Index(i), visit)
		}
		n := v.Len()
		v.Set(v.Slice3(0, n-1, n-1))
		visit(path + " shorter")
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem()), reflect.Zero(v.Type().Elem())))
		visit(path + " longer")
		v.Set(reflect.Zero(v.Type()))
		visit(path + " empty")
		v.Set(old)
	case reflect.Pointer:
		if _, filter := v.Interface().(*filter.Filter); !filter {
			vary(t, path, v.Elem(), visit)
			v.Set(reflect.Zero(v.Type()))
			visit(path + " none")
			v.Set(old)
			return
		}
		// A filter has a single canonical form.
		for _, text := range []string{
			`{"type":"ne","key":"audience","value":"readers"}`, `{"type":"eq","key":"audience","value":"reader"}`,
			`{"type":"eq","key":"Audience","value":"readers"}`, `{"type":"eq","key":"audience","value":1}`,
			`{"type":"eq","key":"audience","value":"1"}`, `{"type":"and","filters":[{"type":"eq","key":"audience","value":"readers"}]}`,
		} {
			other, err := filter.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			change(text, other)
		}
		v.Set(reflect.Zero(v.Type()))
		visit(path + " none")
		v.Set(old)
	default:
		t.Fatalf("%s: the key does not know what to do with a %s", path, v.Kind())
	}
}

// everything returns a question with all fields set.
func everything() retrieval.Query {
	q := question("how long")
	q.Further = []string{"how many weeks", "how many days"}
	q.Settings.Fusion = retrieval.FusionRanks
	q.Settings.Versions = retrieval.VersionsAll
	q.Reranking = &retrieval.Reranking{RerankSettings: retrieval.RerankSettings{
		Upstream: "scorer", Address: "https://scorer.test", Model: "m", Dialect: "cohere", Documents: 50, Threshold: 0.5, Timeout: 2e9,
	}}
	q.Settings.Synonyms = &retrieval.Synonyms{Digest: "dg"}
	q.Grading = &retrieval.Grading{GradeSettings: retrieval.GradeSettings{
		By: retrieval.GradeByModel, Upstream: "grader", Address: "https://grader.test", Model: "m", Relevant: 0.75, Irrelevant: 0.25, Timeout: 2e9,
	}}
	return q
}

// T03, T05: if two questions differ in anything, above all the tenant, their keys differ.
func TestKeyCoversEveryField(t *testing.T) {
	q := everything()
	want := cache.NewKey(cache.Selected, q)
	seen := map[cache.Key]string{want: "unchanged"}
	n := 0
	vary(t, "Query", reflect.ValueOf(&q).Elem(), func(path string) {
		key := cache.NewKey(cache.Selected, q)
		if same, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", path, same)
		}
		seen[key] = path
		n++
	})
	if cache.NewKey(cache.Selected, q) != want {
		t.Error("query was not restored")
	}
	if other := cache.NewKey(cache.Candidates, q); other.Digest == want.Digest {
		t.Error("kinds share a digest")
	}
	if fields := reflect.TypeFor[retrieval.Query]().NumField() + reflect.TypeFor[retrieval.Settings]().NumField(); n < fields {
		t.Errorf("only %d changes tried on %d fields", n, fields)
	}
}

// A Retriever that caches a query and its decoded result does not confuse it with a query that
// differs in any field.
func TestRecentCoversEveryField(t *testing.T) {
	q := everything()
	asked := 0
	r := cache.NewRetriever(retrieval.Func(
		func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
			asked++
			return retrieval.Result{Sources: []retrieval.Source{{Text: fmt.Sprint(asked)}}, Bases: slices.Clone(q.Bases)}, nil
		}), cache.Selected, near(memory(t, 1<<20)), nil)
	retrieve := func(path, want string, state retrieval.CacheState) {
		res, err := r.Retrieve(t.Context(), q)
		if err != nil || len(res.Sources) != 1 || res.Sources[0].Text != want || res.Cache != state {
			t.Errorf("%s: %+v, %v, want answer %s of a %s", path, res, err, want, state)
		}
	}
	retrieve("first", "1", retrieval.CacheMiss)
	retrieve("decoded", "1", retrieval.CacheHit)
	retrieve("remembered", "1", retrieval.CacheHit)
	n := 1
	vary(t, "Query", reflect.ValueOf(&q).Elem(), func(path string) {
		n++
		if len(q.Bases) == 0 || slices.ContainsFunc(q.Bases, func(b retrieval.Ref) bool { return b.Generation == "" }) {
			retrieve(path, fmt.Sprint(n), "") // without a generation it cannot be cached
			return
		}
		retrieve(path, fmt.Sprint(n), retrieval.CacheMiss)
		for range 2 {
			retrieve(path, fmt.Sprint(n), retrieval.CacheHit)
		}
	})
	retrieve("as at first", "1", retrieval.CacheHit)
}

// T04: bytes moved from one field to its neighbour make another query and so another key. The
// texts consist of few letters, so that the joined fields of different queries are often equal.
func TestKeyIsInjective(t *testing.T) {
	letters := rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00\x01:")), 0, 3, -1)
	filter := rapid.Custom(func(t *rapid.T) *filter.Filter {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return &filter.Filter{Type: filter.Eq, Key: letters.Draw(t, "key"), Value: letters.Draw(t, "value")}
	})
	query := rapid.Custom(func(t *rapid.T) retrieval.Query {
		return retrieval.Query{
			Tenant: letters.Draw(t, "tenant"), Filter: filter.Draw(t, "filter"), Text: letters.Draw(t, "text"),
			Encoding: letters.Draw(t, "encoding"),
			Previous: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) retrieval.Turn {
				return retrieval.Turn{Text: letters.Draw(t, "turn"), Weight: rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(t, "weight")}
			}), 0, 3).Draw(t, "previous"),
			Bases: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) retrieval.Ref {
				return retrieval.Ref{Knowledge: letters.Draw(t, "id"), Generation: letters.Draw(t, "generation")}
			}), 0, 3).Draw(t, "bases"),
			Further: rapid.SliceOfN(letters, 0, 2).Draw(t, "further"),
			Settings: retrieval.Settings{
				TopK: rapid.IntRange(-1, 1).Draw(t, "top k"), NumCandidates: rapid.IntRange(-1, 1).Draw(t, "n"),
				Thresholds: rapid.Map(rapid.SliceOfN(letters, 0, 2), func(ids []string) (list []retrieval.Threshold) {
					for _, id := range ids {
						list = append(list, retrieval.Threshold{Knowledge: id, Relevance: 0.5})
					}
					return list
				}).Draw(t, "thresholds"),
			},
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := query.Draw(t, "a"), query.Draw(t, "b")
		if rapid.Bool().Draw(t, "shift") { // the hard case: the same bytes, split elsewhere
			b = a
			joined := a.Text + a.Encoding
			cut := rapid.IntRange(0, len(joined)).Draw(t, "cut")
			b.Encoding, b.Text = joined[:cut], joined[cut:]
			if b.Previous = slices.Clone(a.Previous); len(a.Previous) > 1 {
				joined = a.Previous[0].Text + a.Previous[1].Text
				cut = rapid.IntRange(0, len(joined)).Draw(t, "turns cut")
				b.Previous[0].Text, b.Previous[1].Text = joined[:cut], joined[cut:]
			}
		}
		for _, q := range []*retrieval.Query{&a, &b} {
			if len(q.Previous) == 0 {
				q.Previous = nil // nil and empty are the same
			}
			if len(q.Further) == 0 {
				q.Further = nil
			}
		}
		if b.Bases = slices.Clip(b.Bases); len(a.Bases) == 0 && len(b.Bases) == 0 {
			a.Bases, b.Bases = nil, nil // nil and empty are the same
		}
		equal := reflect.DeepEqual(a, b)
		if same := cache.NewKey(cache.Selected, a) == cache.NewKey(cache.Selected, b); same != equal {
			t.Fatalf("same key: %v, same query: %v\n%+v\n%+v", same, equal, a, b)
		}
	})
}

// Lists of names have different keys wherever one name ends and the next begins, and different
// ones for each kind; a sealed body is found only under its own key.
func TestNamedKey(t *testing.T) {
	keys := []cache.Key{
		cache.NamedKey("k", "a", "b", "c"), cache.NamedKey("k", "ab", "", "c"), cache.NamedKey("k", "", "ab", "c"),
		cache.NamedKey("k", "a", "b"), cache.NamedKey("k", "a", "b", "c", ""), cache.NamedKey("ka", "b", "c"), cache.NamedKey("k"),
	}
	for i, k := range keys {
		value := cache.Seal(k, []byte("body"))
		for j, other := range keys {
			body, err := cache.Body(other, value)
			if i == j && (err != nil || string(body) != "body") || i != j && err == nil {
				t.Errorf("of %v under %v: %q, %v", k, other, body, err)
			}
		}
	}
}
