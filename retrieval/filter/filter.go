// Package filter selects documents by their attributes.
package filter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Type says how a Filter compares, or combines other filters.
type Type string

// The types: those of OpenAI's vector stores, and prefix.
const (
	Eq     Type = "eq"
	Ne     Type = "ne"
	Gt     Type = "gt"
	Gte    Type = "gte"
	Lt     Type = "lt"
	Lte    Type = "lte"
	In     Type = "in"
	Nin    Type = "nin"
	Prefix Type = "prefix"
	And    Type = "and"
	Or     Type = "or"
)

// Types returns all types.
func Types() []Type { return []Type{Eq, Ne, Gt, Gte, Lt, Lte, In, Nin, Prefix, And, Or} }

// A Filter selects documents by their attributes, in the grammar of OpenAI's vector stores
// (https://platform.openai.com/docs/api-reference/vector-stores/search): {"type": "eq", "key":
// "audience", "value": "public"}, combined by {"type": "and", "filters": […]} and "or". In
// addition to OpenAI's comparisons there is "prefix" for strings.
//
// Values are strings, numbers and booleans; in and nin take lists of them. Values of different
// types are not equal and have no order. Strings are ordered bytewise, which also orders dates
// such as 2006-01-02; booleans have no order. A comparison with an attribute that is a list of
// strings is true if it is true for one element. ne and nin are the negations of eq and in, so
// they are true if a document lacks the attribute; all others are then false. A filter with an
// invalid value matches nothing.
//
// A nil Filter matches everything. A Filter is never modified.
type Filter struct {
	Type    Type
	Key     string   // of a comparison
	Value   any      // of a comparison, see value.go; a list for in and nin; or a Claim
	Filters []Filter // of and and or; at least one
}

// MarshalJSON returns the filter in the form that Parse reads.
func (f *Filter) MarshalJSON() ([]byte, error) { return []byte(f.String()), nil }

// String returns the filter as JSON; "" for nil. Filters that differ only in the order of combined
// filters or listed values give the same JSON, which is part of cache keys.
func (f *Filter) String() string {
	if f == nil {
		return ""
	}
	return string(f.appendTo(make([]byte, 0, 128))) // usually on the stack
}

func (f *Filter) appendTo(b []byte) []byte {
	b = appendText(append(b, `{"type":`...), string(f.Type))
	if f.Type == And || f.Type == Or {
		b = append(b, `,"filters":`...)
		b = appendSet(b, len(f.Filters), func(part []byte, i int) []byte { return f.Filters[i].appendTo(part) })
	} else {
		b = appendText(append(b, `,"key":`...), f.Key)
		b = f.appendValue(append(b, `,"value":`...))
	}
	return append(b, '}')
}

// appendSet appends n parts as a list, sorted and without duplicates.
func appendSet(b []byte, n int, part func(b []byte, i int) []byte) []byte {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = string(part(nil, i))
	}
	slices.Sort(parts)
	return append(append(append(b, '['), strings.Join(slices.Compact(parts), ",")...), ']')
}

// appendValue appends the value of a comparison. A Claim becomes an object and an invalid value
// null; Parse refuses both.
func (f *Filter) appendValue(b []byte) []byte {
	if claim, ok := f.Value.(Claim); ok {
		return append(appendText(append(b, `{"claim":`...), string(claim)), '}')
	}
	if !f.hasForm() {
		return append(b, "null"...)
	}
	if f.Type != In && f.Type != Nin {
		v, _ := value(f.Value)
		return appendScalar(b, v)
	}
	var list []any
	anyOf(f.Value, func(v any) bool {
		list = append(list, v)
		return false
	})
	return appendSet(b, len(list), func(part []byte, i int) []byte { return appendScalar(part, list[i]) })
}

func appendScalar(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendText(b, v)
	case float64:
		return strconv.AppendFloat(b, v, 'g', -1, 64)
	case bool:
		return strconv.AppendBool(b, v)
	}
	panic(fmt.Sprintf("BUG: a value of type %T was not refused", v))
}

// appendText appends a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || strings.IndexByte(`"\<>&`, c) >= 0 {
			text, _ := json.Marshal(validText(s)) // encoding a string cannot fail
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// AllOf returns a filter that matches what all of the filters match. Nil filters are ignored;
// without others it returns nil.
func AllOf(filters ...*Filter) *Filter {
	var all *Filter
	joined := false
	for _, f := range filters {
		switch {
		case f == nil:
		case all == nil:
			all = f
		case !joined:
			all, joined = &Filter{Type: And, Filters: []Filter{*all, *f}}, true
		default:
			all.Filters = append(all.Filters, *f)
		}
	}
	return all
}

// Keys calls yield with the key of each comparison until it returns false.
func (f *Filter) Keys(yield func(key string) bool) {
	switch {
	case f == nil:
	case f.Type != And && f.Type != Or:
		yield(f.Key)
	default:
		for i := range f.Filters {
			for key := range f.Filters[i].Keys {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// Match reports whether a document with these attributes matches. Attributes are strings, numbers,
// bools and lists of strings.
func (f *Filter) Match(attributes map[string]any) bool {
	if f == nil {
		return true
	}
	switch f.Type {
	case And:
		return !slices.ContainsFunc(f.Filters, func(f Filter) bool { return !f.Match(attributes) })
	case Or:
		return slices.ContainsFunc(f.Filters, func(f Filter) bool { return f.Match(attributes) })
	}
	attribute := attributes[validText(f.Key)]
	is, ok := anyOf(attribute, f.compare)
	if !ok && attribute != nil || !f.hasForm() {
		return false
	}
	return is != (f.Type == Ne || f.Type == Nin)
}

// compare reports whether a value satisfies the filter; ne and nin are treated as eq and in.
func (f *Filter) compare(attribute any) bool {
	switch f.Type {
	case In, Nin:
		in, _ := anyOf(f.Value, func(v any) bool { return v == attribute })
		return in
	}
	wanted, _ := value(f.Value)
	switch f.Type {
	case Eq, Ne:
		return attribute == wanted
	case Prefix:
		text, is := attribute.(string)
		prefix, ok := wanted.(string)
		return is && ok && strings.HasPrefix(text, prefix)
	}
	order, ok := compareValues(attribute, wanted)
	switch f.Type {
	case Gt:
		return ok && order > 0
	case Gte:
		return ok && order >= 0
	case Lt:
		return ok && order < 0
	case Lte:
		return ok && order <= 0
	}
	return false // an unknown type matches nothing
}

// compareValues compares two numbers or two strings. ok is false for anything else.
func compareValues(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return cmp.Compare(a, b), ok
	case string:
		b, ok := b.(string)
		return cmp.Compare(a, b), ok
	}
	return 0, false
}
