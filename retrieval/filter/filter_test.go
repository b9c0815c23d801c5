package filter_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/filter"
)

func parse(t *testing.T, text string) *filter.Filter {
	t.Helper()
	f, err := filter.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFilterMatch(t *testing.T) {
	attributes := map[string]any{
		"audience": "public", "year": 2024.0, "draft": false, "tags": []string{"hr", "leave"}, "empty": []string{}, "date": "2024-05-01",
	}
	for text, want := range map[string]bool{
		`{"type":"eq","key":"audience","value":"public"}`:                                                             true,
		`{"type":"eq","key":"audience","value":"Public"}`:                                                             false,
		`{"type":"eq","key":"year","value":2024}`:                                                                     true,
		`{"type":"eq","key":"year","value":"2024"}`:                                                                   false,
		`{"type":"eq","key":"draft","value":false}`:                                                                   true,
		`{"type":"eq","key":"tags","value":"leave"}`:                                                                  true,
		`{"type":"eq","key":"missing","value":"x"}`:                                                                   false,
		`{"type":"ne","key":"missing","value":"x"}`:                                                                   true,
		`{"type":"ne","key":"year","value":"2024"}`:                                                                   true,
		`{"type":"ne","key":"tags","value":"hr"}`:                                                                     false,
		`{"type":"ne","key":"empty","value":"hr"}`:                                                                    true,
		`{"type":"gt","key":"year","value":2023}`:                                                                     true,
		`{"type":"gt","key":"year","value":2024}`:                                                                     false,
		`{"type":"gte","key":"year","value":2024}`:                                                                    true,
		`{"type":"lt","key":"year","value":2024.5}`:                                                                   true,
		`{"type":"lte","key":"year","value":2023}`:                                                                    false,
		`{"type":"lt","key":"year","value":"3000"}`:                                                                   false,
		`{"type":"gte","key":"date","value":"2024-01-01"}`:                                                            true,
		`{"type":"lt","key":"missing","value":1}`:                                                                     false,
		`{"type":"gt","key":"draft","value":0}`:                                                                       false,
		`{"type":"in","key":"year","value":[2023,2024]}`:                                                              true,
		`{"type":"in","key":"year","value":[]}`:                                                                       false,
		`{"type":"in","key":"tags","value":["leave","x"]}`:                                                            true,
		`{"type":"nin","key":"tags","value":["leave","x"]}`:                                                           false,
		`{"type":"nin","key":"missing","value":["x"]}`:                                                                true,
		`{"type":"nin","key":"year","value":["2024"]}`:                                                                true,
		`{"type":"prefix","key":"audience","value":"pub"}`:                                                            true,
		`{"type":"prefix","key":"year","value":"20"}`:                                                                 false,
		`{"type":"prefix","key":"tags","value":"le"}`:                                                                 true,
		`{"type":"and","filters":[{"type":"eq","key":"year","value":2024},{"type":"eq","key":"draft","value":true}]}`: false,
		`{"type":"or","filters":[{"type":"eq","key":"year","value":2024},{"type":"eq","key":"draft","value":true}]}`:  true,
	} {
		f := parse(t, text)
		if got := f.Match(attributes); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		again := parse(t, f.String())
		if again.String() != f.String() || again.Match(attributes) != want {
			t.Errorf("%s became %s", text, f)
		}
	}
	if nothing := (*filter.Filter)(nil); !nothing.Match(nil) || nothing.String() != "" {
		t.Error("no filter chooses some")
	}
	if (&filter.Filter{Type: "near", Key: "year", Value: 1.0}).Match(attributes) {
		t.Error("a filter of an unknown type chooses")
	}
}

// An error names the place and the value.
func TestParseFilterRefuses(t *testing.T) {
	deep := `{"type":"eq","key":"a","value":1}`
	for range 16 {
		deep = `{"type":"and","filters":[` + deep + `]}`
	}
	wide := `{"type":"or","filters":[` + strings.Repeat(`{"type":"eq","key":"a","value":1},`, 256) + `{"type":"eq","key":"a","value":1}]}`
	for text, want := range map[string]string{
		``:                                     `filter: what is missing is not an object such as {"type": "eq", "key": "audience", "value": "public"}`,
		`[1]`:                                  `filter: [1] is not an object such as {"type": "eq", "key": "audience", "value": "public"}`,
		`{`:                                    `filter: { is not JSON`,
		`{}`:                                   `type: is missing`,
		`{"type":null}`:                        `type: null is not a string`,
		`{"type":"like","key":"a"}`:            `type: "like" is none of eq, ne, gt, gte, lt, lte, in, nin, prefix, and, or`,
		`{"Type":"eq"}`:                        `Type: unknown field; a filter has type, key and value, or type and filters`,
		`{"type":"eq","type":"ne"}`:            `type: is there twice`,
		`{"type":"eq","value":1}`:              `key: is missing`,
		`{"type":"eq","key":"","value":1}`:     `key: is empty`,
		`{"type":"eq","key":7,"value":1}`:      `key: 7 is not a string`,
		`{"type":"eq","key":"a"}`:              `value: is missing`,
		`{"type":"eq","key":"a","value":[1]}`:  `value: [1] is neither a string, a number nor a boolean`,
		`{"type":"eq","key":"a","value":null}`: `value: null is neither a string, a number nor a boolean`,
		`{"type":"in","key":"a","value":1}`:    `value: 1 is not a list`,
		`{"type":"in","key":"a","value":[1,[2]]}`:                 `value: [1,[2]] is neither a string, a number nor a boolean`,
		`{"type":"gt","key":"a","value":true}`:                    `value: true has no order; a number or a string has`,
		`{"type":"eq","key":"a","value":1e999}`:                   `value: 1e999 holds a number that is too large`,
		`{"type":"prefix","key":"a","value":1}`:                   `value: 1 is not a string`,
		`{"type":"and"}`:                                          `filters: what is missing is not a list of at least one filter`,
		`{"type":"and","filters":[]}`:                             `filters: [] is not a list of at least one filter`,
		`{"type":"and","key":"a","filters":[]}`:                   `filter: "and" joins filters; it has no key and no value`,
		`{"type":"eq","key":"a","value":1,"filters":[]}`:          `filter: "eq" compares; it has a key and a value, no filters`,
		`{"type":"or","filters":[{"type":"eq","key":"a"}]}`:       `filters[0].value: is missing`,
		`{"type":"eq","key":"` + strings.Repeat("k", 1025) + `"}`: `key: "` + strings.Repeat("k", 59) + `… is longer than 1024 bytes`,
		deep: strings.Repeat("filters[0].", 15) + `filters[0]: filters stand more than 16 deep`,
		wide: `filters: there are more than 256 filters in one`,
	} {
		_, err := filter.Parse([]byte(text))
		if err == nil {
			t.Errorf("%s: no error", text)
		} else if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if at, ok := errors.AsType[*filter.Error](err); !ok || !strings.HasPrefix(want, at.At) {
			t.Errorf("%s: %#v", text, err)
		}
	}
}

// Filters that differ only in order have one cache key; others do not.
func TestFilterString(t *testing.T) {
	a := parse(t, `{"type":"and","filters":[{"type":"in","key":"a","value":["y","x"]},{"type":"eq","key":"b","value":1.50}]}`)
	b := parse(t, `{ "filters": [{"value":1.5,"key":"b","type":"eq"}, {"type":"in","key":"a","value":["x","y","x"]}], "type": "and" }`)
	if a.String() != b.String() {
		t.Errorf("%s\n%s", a, b)
	}
	if text, err := json.Marshal(map[string]any{"filters": a}); err != nil || string(text) != `{"filters":`+a.String()+`}` {
		t.Errorf("%s, %v", text, err)
	}
	if one := parse(t, `{"type":"eq","key":"b","value":"1.5"}`); one.String() == a.Filters[1].String() {
		t.Errorf("a string is written like a number: %s", one)
	}
	if got := filter.AllOf(nil, nil); got != nil {
		t.Errorf("all of nothing is %s", got)
	}
	both := filter.AllOf(nil, a, b)
	if got := slices.Collect(both.Keys); !slices.Equal(got, []string{"a", "b", "b", "a"}) {
		t.Errorf("keys %v", got)
	}
	if one := filter.AllOf(nil, a); one.String() != a.String() {
		t.Errorf("all of one is %s", one)
	}
}

// ne and nin are negations, and "and" and "or" are as in logic.
func TestFilterLogic(t *testing.T) {
	value := rapid.OneOf(rapid.Custom(func(t *rapid.T) any { return rapid.SampledFrom([]string{"", "a", "ab", "b"}).Draw(t, "text") }),
		rapid.Custom(func(t *rapid.T) any { return float64(rapid.IntRange(0, 2).Draw(t, "number")) }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Bool().Draw(t, "bool") }))
	key := rapid.SampledFrom([]string{"k", "l"})
	rapid.Check(t, func(t *rapid.T) {
		attributes := rapid.MapOf(key, rapid.OneOf(value, rapid.Custom(func(t *rapid.T) any {
			return rapid.SliceOf(rapid.SampledFrom([]string{"a", "b"})).Draw(t, "list")
		}))).Draw(t, "attributes")
		k, v := key.Draw(t, "key"), value.Draw(t, "value")
		is := func(kind filter.Type, v any) bool {
			return (&filter.Filter{Type: kind, Key: k, Value: v}).Match(attributes)
		}
		if is(filter.Eq, v) == is(filter.Ne, v) {
			t.Errorf("%v is equal and not equal to %v", attributes, v)
		}
		if is(filter.In, []any{v}) != is(filter.Eq, v) || is(filter.In, []any{v}) == is(filter.Nin, []any{v}) {
			t.Errorf("%v in a list of %v", attributes, v)
		}
		x := filter.Filter{Type: filter.Eq, Key: k, Value: v}
		y := filter.Filter{Type: filter.Prefix, Key: key.Draw(t, "other"), Value: "a"}
		and, or := filter.AllOf(&x, &y), filter.Filter{Type: filter.Or, Filters: []filter.Filter{x, y}}
		if and.Match(attributes) != (x.Match(attributes) && y.Match(attributes)) || or.Match(attributes) != (x.Match(attributes) || y.Match(attributes)) {
			t.Errorf("%s and %s of %v", and, &or, attributes)
		}
	})
}

// Texts are encoded as by encoding/json: caches shared with other replicas are keyed by that.
func TestFilterTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom(nil, &unicode.RangeTable{R16: []unicode.Range16{{Hi: 0x80, Stride: 1}}}), 0, 8, -1)).Draw(t, "text")
		written, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		f := filter.Filter{Type: filter.In, Key: text, Value: []any{text, true, 1.5}}
		list := []string{string(written), "true", "1.5"}
		slices.Sort(list)
		if want := `{"type":"in","key":` + string(written) + `,"value":[` + strings.Join(list, ",") + `]}`; f.String() != want {
			t.Fatalf("%s, want %s", f.String(), want)
		}
	})
}
