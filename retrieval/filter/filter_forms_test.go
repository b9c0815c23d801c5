package filter_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/filter"
)

// A value means the same in every Go type: filters made in code equal parsed ones.
func TestFilterValuesHaveOneForm(t *testing.T) {
	attributes := map[string]any{"tags": []string{"a b", "c"}, "any": []any{"a b", "c"}, "year": 2024.0, "whole": 2024}
	f := func(kind filter.Type, key string, v any, want bool, text string) {
		t.Helper()
		f := &filter.Filter{Type: kind, Key: key, Value: v}
		if got := f.Match(attributes); got != want {
			t.Errorf("%s %s %#v: %v, want %v", kind, key, v, got, want)
		}
		if diff := cmp.Diff(text, f.String()); diff != "" {
			t.Errorf("%s %s %#v (-want +got):\n%s", kind, key, v, diff)
		}
	}
	const nin, in = filter.Nin, filter.In
	f(nin, "tags", []string{"c", "d"}, false, `{"type":"nin","key":"tags","value":["c","d"]}`)
	f(nin, "tags", []string{"a", "b"}, true, `{"type":"nin","key":"tags","value":["a","b"]}`)
	f(nin, "tags", []string{"a b"}, false, `{"type":"nin","key":"tags","value":["a b"]}`)
	f(nin, "any", []any{"c"}, false, `{"type":"nin","key":"any","value":["c"]}`)
	f(in, "any", []string{"c"}, true, `{"type":"in","key":"any","value":["c"]}`)
	f(in, "year", []any{2024}, true, `{"type":"in","key":"year","value":[2024]}`)
	f(filter.Eq, "year", 2024, true, `{"type":"eq","key":"year","value":2024}`)
	f(filter.Eq, "whole", 2024.0, true, `{"type":"eq","key":"whole","value":2024}`)
	f(filter.Gt, "year", int64(2023), true, `{"type":"gt","key":"year","value":2023}`)

	// A filter with an invalid value matches nothing, whatever its type: a broken policy must not
	// show what it should hide.
	for _, v := range []any{nil, struct{}{}, []any{"a", nil}, []any{[]any{"a"}}, math.NaN(), []int{1}, 1<<53 + 1} {
		for _, kind := range []filter.Type{filter.Eq, filter.Ne, in, nin, filter.Gt, filter.Prefix} {
			f(kind, "year", v, false, `{"type":"`+string(kind)+`","key":"year","value":null}`)
		}
	}
	f(nin, "year", "2024", false, `{"type":"nin","key":"year","value":null}`) // not a list
	f(filter.Ne, "year", []string{"x"}, false, `{"type":"ne","key":"year","value":null}`)

	strange := map[string]any{"k": map[string]any{"nested": true}}
	if (&filter.Filter{Type: nin, Key: "k", Value: []any{"x"}}).Match(strange) || (&filter.Filter{Type: filter.Ne, Key: "k", Value: "x"}).Match(strange) {
		t.Error("an attribute of no kind that there is passes a filter")
	}
}

// A comparison with a list attribute is true if it is true for one element, in every Go type of
// list.
func TestEveryOperatorOverLists(t *testing.T) {
	for kind, cases := range map[filter.Type]map[any]bool{
		filter.Eq:     {"b": true, "c": false, 1.0: false, true: false},
		filter.Ne:     {"b": false, "c": true, 1.0: true, true: true},
		filter.Gt:     {"a": true, "ba": true, "bb": false, 0.0: false},
		filter.Gte:    {"bb": true, "bc": false, 0.0: false},
		filter.Lt:     {"b": true, "aa": false, 9.0: false},
		filter.Lte:    {"aa": true, "a": false, 9.0: false},
		filter.Prefix: {"b": true, "c": false, "": true},
	} {
		for v, want := range cases {
			checkLists(t, kind, v, want)
		}
	}
	for _, c := range []struct {
		values any
		in     bool
	}{
		{[]any{"b", "x"}, true}, {[]any{"x"}, false}, {[]any{}, false}, {[]any{1.0, true}, false}, {[]any{"x", "bb"}, true},
		{[]string{"b", "x"}, true}, {[]string{"x"}, false}, {[]string{}, false}, {[]string{"aa b bb"}, false}, {[]string{"aa b", "bb"}, true},
	} {
		checkLists(t, filter.In, c.values, c.in)
		checkLists(t, filter.Nin, c.values, !c.in)
	}
}

// checkLists compares a value with a list in each of its Go types.
func checkLists(t *testing.T, kind filter.Type, v any, want bool) {
	t.Helper()
	f := &filter.Filter{Type: kind, Key: "k", Value: v}
	for _, list := range []any{[]string{"aa", "b", "bb"}, []any{"aa", "b", "bb"}} {
		if got := f.Match(map[string]any{"k": list}); got != want {
			t.Errorf("%s %#v of %#v: %v, want %v", kind, v, list, got, want)
		}
	}
	negative := kind == filter.Ne || kind == filter.Nin
	for _, none := range []map[string]any{nil, {"k": []string{}}, {"k": []any{}}} {
		if got := f.Match(none); got != negative {
			t.Errorf("%s %#v of %v: %v, want %v", kind, v, none, got, negative)
		}
	}
}

// The text of a filter determines what it matches, so that filters with the same text, which is a
// cache key, match the same.
func TestFilterStringIsInjective(t *testing.T) {
	text := rapid.SampledFrom([]string{"", "a", "b", "a b", `a","b`, "a,b", "1", "true", "null", "\xff", "\xfe", "\ufffd"})
	one := rapid.OneOf(
		rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-1, 2), func(n int) any { return n }),
		rapid.Map(rapid.SampledFrom([]float64{0, 1, 1.5, 1e21}), func(n float64) any { return n }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
	)
	lists := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(text, 0, 3), func(l []string) any { return l }),
		rapid.Map(rapid.SliceOfN(one, 0, 3), func(l []any) any { return l }),
	)
	kinds := rapid.SampledFrom([]filter.Type{
		filter.Eq, filter.Ne, filter.Gt, filter.Gte, filter.Lt, filter.Lte,
		filter.In, filter.Nin, filter.Prefix,
	})
	key := rapid.SampledFrom([]string{"k", "\xff", "\ufffd"})
	draw := func(t *rapid.T, name string) *filter.Filter {
		return &filter.Filter{Type: kinds.Draw(t, name+" type"), Key: key.Draw(t, name+" key"), Value: rapid.OneOf(one, lists).Draw(t, name+" value")}
	}
	valid := rapid.SampledFrom([]any{"", "a", "b", "a b", `a","b`, "1", "\ufffd", 0.0, 1.0, 1.5, true, false, []string{"a", "b"}, []string{"a b"}, []string{}})
	rapid.Check(t, func(t *rapid.T) {
		f, g := draw(t, "one"), draw(t, "other")
		attributes := map[string]any{"k": valid.Draw(t, "k"), "\ufffd": valid.Draw(t, "replaced")}
		want := f.Match(attributes)
		if f.String() == g.String() && g.Match(attributes) != want {
			t.Fatalf("%#v and %#v share %s, and choose differently of %v", f, g, f, attributes)
		}
		parsed, err := filter.Parse([]byte(f.String()))
		if err != nil {
			if want {
				t.Fatalf("%#v chooses, and %s is no filter: %v", f, f, err)
			}
			return
		}
		if parsed.Match(attributes) != want || parsed.String() != f.String() {
			t.Fatalf("%#v of %v: %v, as %s it is %v", f, attributes, want, parsed, !want)
		}
	})
}
