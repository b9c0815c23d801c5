package filter_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"sidenote/retrieval/filter"
)

// Orders at their boundary, and values without an order.
func TestFilterOrders(t *testing.T) {
	attributes := map[string]any{"year": 2024.0, "date": "2024-05-01", "draft": false, "text": "abc"}
	for kind, want := range map[filter.Type][3]bool{ // results for less, equal, greater
		filter.Gt:  {true, false, false},
		filter.Gte: {true, true, false},
		filter.Lt:  {false, false, true},
		filter.Lte: {false, true, true},
	} {
		is := func(key string, v any) bool {
			return (&filter.Filter{Type: kind, Key: key, Value: v}).Match(attributes)
		}
		for i, v := range []float64{2023, 2024, 2025} {
			if is("year", v) != want[i] {
				t.Errorf("2024 %s %v: %v", kind, v, !want[i])
			}
		}
		for i, v := range []string{"2024-04-30", "2024-05-01", "2024-05-011"} {
			if is("date", v) != want[i] {
				t.Errorf("2024-05-01 %s %s: %v", kind, v, !want[i])
			}
		}
		for _, none := range []struct {
			key   string
			value any
		}{{"year", "2024"}, {"date", 0.0}, {"draft", 0.0}, {"draft", false}, {"draft", "false"}, {"missing", 0.0}, {"missing", ""}} {
			if is(none.key, none.value) {
				t.Errorf("%v %s %#v", attributes[none.key], kind, none.value)
			}
		}
	}
	for v, want := range map[any]bool{"": true, "ab": true, "abc": true, "abcd": false, 1.0: false, true: false} {
		if (&filter.Filter{Type: filter.Prefix, Key: "text", Value: v}).Match(attributes) != want {
			t.Errorf("abc begins with %#v: %v", v, !want)
		}
	}
	if (&filter.Filter{Type: filter.Prefix, Key: "year", Value: ""}).Match(attributes) {
		t.Error("a number begins with a text")
	}
}

// Numbers and texts of Go equal those of JSON, also at the ends of their ranges.
func TestFilterValuesAtTheirEnds(t *testing.T) {
	const none = "null"
	for _, c := range []struct {
		value any
		same  any // as decoded from JSON
		text  string
	}{
		{uint64(2024), 2024.0, "2024"},
		{uint64(1 << 53), float64(1 << 53), "9.007199254740992e+15"},
		{uint64(1<<53 + 1), nil, none},
		{uint64(1 << 62), float64(1 << 62), "4.611686018427388e+18"},
		{uint64(1 << 63), nil, none},
		{uint64(math.MaxUint64), nil, none},
		{int64(math.MaxInt64), nil, none},
		{int64(math.MinInt64), float64(math.MinInt64), "-9.223372036854776e+18"},
		{-5, -5.0, "-5"},
		{math.Inf(1), nil, none},
		{math.Inf(-1), nil, none},
		{math.NaN(), nil, none},
		{math.MaxFloat64, math.MaxFloat64, "1.7976931348623157e+308"},
		{"\xff", "\ufffd", "\"\ufffd\""},
		{"a\xffb", "a\ufffdb", "\"a\ufffdb\""},
	} {
		f := &filter.Filter{Type: filter.Eq, Key: "k", Value: c.value}
		if got, want := f.String(), `{"type":"eq","key":"k","value":`+c.text+"}"; got != want {
			t.Errorf("%#v: %s, want %s", c.value, got, want)
		}
		for _, attribute := range []any{c.value, c.same, []any{"x", c.value}} {
			if got := f.Match(map[string]any{"k": attribute}); got != (c.same != nil) {
				t.Errorf("%#v of %#v: %v", c.value, attribute, got)
			}
		}
		list := &filter.Filter{Type: filter.In, Key: "k", Value: []any{"x", c.value}}
		if got := list.Match(map[string]any{"k": c.value}); got != (c.same != nil) {
			t.Errorf("%#v in a list: %v", c.value, got)
		}
	}
}

// Every byte of a text is encoded as by encoding/json, alone and among others.
func TestFilterTextOfEveryByte(t *testing.T) {
	for c := range 256 {
		for _, text := range []string{string([]byte{byte(c)}), string([]byte{byte(c), byte(c)}), string([]byte{'a', byte(c), 'b'})} {
			written, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			f := filter.Filter{Type: filter.Eq, Key: text, Value: text}
			// Invalid UTF-8 is encoded as the replacement character itself.
			want := strings.ReplaceAll(`{"type":"eq","key":`+string(written)+`,"value":`+string(written)+`}`, `\ufffd`, "\ufffd")
			if f.String() != want {
				t.Errorf("%q: %s, want %s", text, f.String(), want)
			}
		}
	}
}

// AllOf combines three filters in one "and"; Keys yields all keys until yield returns false.
func TestFilterJoined(t *testing.T) {
	a, b, c := parse(t, `{"type":"eq","key":"a","value":1}`), parse(t, `{"type":"eq","key":"b","value":1}`), parse(t, `{"type":"eq","key":"c","value":1}`)
	all := filter.AllOf(nil, a, b, nil, c)
	if want := `{"type":"and","filters":[` + a.String() + "," + b.String() + "," + c.String() + `]}`; all.String() != want {
		t.Errorf("%s, want %s", all, want)
	}
	either := &filter.Filter{Type: filter.Or, Filters: []filter.Filter{*all, *a}}
	if got := slices.Collect(either.Keys); !slices.Equal(got, []string{"a", "b", "c", "a"}) {
		t.Errorf("keys %v", got)
	}
	for range either.Keys { // would panic if yield were called again
		break
	}
	for key := range (*filter.Filter)(nil).Keys {
		t.Errorf("no filter has the key %s", key)
	}
}

// A filter may be as large as the limits, and no larger.
func TestFilterLimits(t *testing.T) {
	const one = `{"type":"eq","key":"a","value":1}`
	and := func(filters ...string) string { return `{"type":"and","filters":[` + strings.Join(filters, ",") + `]}` }
	many := func(n int) string { return and(slices.Repeat([]string{one}, n)...) }
	nested := one
	for range 15 {
		nested = and(nested)
	}
	values := func(n int) string {
		return `{"type":"in","key":"a","value":[` + strings.Repeat("1,", n-1) + `1]}`
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct{ text, want string }{
		"256 nodes":         {many(255), ""},
		"257 nodes":         {many(256), "filters[255]: there are more than 256 filters in one"},
		"257 parts":         {many(257), "filters: there are more than 256 filters in one"},
		"256 nodes in two":  {and(many(127), many(126)), ""},
		"257 nodes in two":  {and(many(127), many(127)), "filters[1].filters[126]: there are more than 256 filters in one"},
		"16 deep":           {nested, ""},
		"17 deep":           {and(nested), strings.Repeat("filters[0].", 15) + "filters[0]: filters stand more than 16 deep"},
		"1024 values":       {values(1024), ""},
		"1025 values":       {values(1025), "value: [" + strings.Repeat("1,", 29) + "1… has more than 1024 values"},
		"key of 1024":       {`{"type":"eq","key":"` + long(1024) + `","value":1}`, ""},
		"key of 1025":       {`{"type":"eq","key":"` + long(1025) + `","value":1}`, `key: "` + long(59) + "… is longer than 1024 bytes"},
		"value of 1024":     {`{"type":"eq","key":"a","value":"` + long(1024) + `"}`, ""},
		"value of 1025":     {`{"type":"eq","key":"a","value":"` + long(1025) + `"}`, `value: "` + long(59) + "… is longer than 1024 bytes"},
		"element of 1025":   {`{"type":"in","key":"a","value":["` + long(1025) + `"]}`, `value: ["` + long(58) + "… is longer than 1024 bytes"},
		"value, not a key":  {`{"type":"and","value":1,"filters":[` + one + `]}`, `filter: "and" joins filters; it has no key and no value`},
		"key, not a value":  {`{"type":"or","key":"a","filters":[` + one + `]}`, `filter: "or" joins filters; it has no key and no value`},
		"filters of a text": {`{"type":"or","filters":"` + long(57) + `"}`, `filters: "` + long(57) + `" is not a list of at least one filter`},
		"brief by a byte":   {`{"type":"or","filters":"` + long(59) + `"}`, `filters: "` + long(59) + `… is not a list of at least one filter`},
		"brief, whole":      {`{"type":"or","filters":"` + long(58) + `"}`, `filters: "` + long(58) + `" is not a list of at least one filter`},
		"brief of runes":    {`{"type":"or","filters":"` + long(58) + `é"}`, `filters: "` + long(58) + `… is not a list of at least one filter`},
		"brief of spaces":   {`{"type":"or","filters":{"a":  1,` + "\n" + `"b":2}}`, `filters: {"a": 1, "b":2} is not a list of at least one filter`},
		"nothing":           {"", `filter: what is missing is not an object such as {"type": "eq", "key": "audience", "value": "public"}`},
		"a list":            {"[]", `filter: [] is not an object such as {"type": "eq", "key": "audience", "value": "public"}`},
		"spaces":            {"  ", `filter: what is missing is not JSON`},
	} {
		f, err := filter.Parse([]byte(c.text))
		if c.want == "" && (err != nil || f == nil) || c.want != "" && (err == nil || f != nil || err.Error() != c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		var read struct{ Filter filter.Filter }
		read.Filter = filter.Filter{Type: filter.Eq, Key: "before"}
		if c.text == "" || name == "spaces" {
			continue // not JSON at all
		}
		err = json.Unmarshal([]byte(`{"filter":`+c.text+`}`), &read)
		var at *filter.Error
		switch {
		case c.want == "" && (err != nil || read.Filter.String() != f.String()):
			t.Errorf("%s, as JSON: %s, %v", name, read.Filter.String(), err)
		case c.want != "" && (!errors.As(err, &at) || err.Error() != c.want || read.Filter.Key != "before"):
			t.Errorf("%s, as JSON: %s, %v", name, read.Filter.String(), err)
		}
	}
}
