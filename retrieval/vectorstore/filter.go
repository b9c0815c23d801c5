package vectorstore

import (
	"encoding/json"
	"slices"

	"sidenote/retrieval/filter"
)

// A filter is sent as it is, also with prefix, which only Sidenotes know. An API that does
// not know it refuses the search, and Trouble says so. A range from gte to lt in its place
// would rely on an order of strings that no API promises, and could silently find too little.
//
// Some APIs ignore what they do not know. So results are checked against the filter again: a
// policy must not rely on the API for it.

// keep returns the results that a filter chooses by the attributes they come with.
func keep(results []result, filter *filter.Filter) (kept []result, dropped int) {
	if filter == nil {
		return results, 0
	}
	all := len(results)
	results = slices.DeleteFunc(results, func(r result) bool { return !r.chosen(filter) })
	return results, all - len(results)
}

// chosen is false where it cannot be decided: where a result has no attributes at all, as
// behind gateways that leave them out, or one that the filter needs is of an unknown type.
func (r *result) chosen(filter *filter.Filter) bool {
	if len(r.Attributes) == 0 {
		return false
	}
	attributes := map[string]any{}
	for key := range filter.Keys {
		raw, ok := r.Attributes[key]
		if !ok {
			continue
		}
		v, known := attribute(raw)
		if !known {
			return false
		}
		if v != nil {
			attributes[key] = v
		}
	}
	return filter.Match(attributes)
}

// attribute reads what a filter can compare: nil is no attribute, false what is of
// no kind that it knows.
func attribute(raw json.RawMessage) (v any, known bool) {
	if json.Unmarshal(raw, &v) != nil {
		return nil, false
	}
	switch v := v.(type) {
	case nil, string, float64, bool:
		return v, true
	case []any:
		notText := func(element any) bool { _, ok := element.(string); return !ok }
		return v, !slices.ContainsFunc(v, notText)
	}
	return nil, false
}
