package vectorstore

import (
	"encoding/json"
	"slices"

	"sidenote/retrieval/filter"
)

// A filter is sent unchanged, even with prefix, which only a Sidenote supports. Other APIs refuse
// such a search, and Trouble reports it. A range from gte to lt instead would rely on a string
// order that no API promises, and could silently find too little.
//
// Some APIs ignore what they do not support. So results are checked against the filter again: a
// policy must not rely on the API for it.

// keep returns the results whose attributes match a filter.
func keep(results []result, filter *filter.Filter) (kept []result, dropped int) {
	if filter == nil {
		return results, 0
	}
	all := len(results)
	results = slices.DeleteFunc(results, func(r result) bool { return !r.chosen(filter) })
	return results, all - len(results)
}

// chosen reports whether a result matches filter. It is false if this cannot be decided: the
// result has no attributes, as behind gateways that omit them, or one that the filter needs is of
// an unsupported type.
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

// attribute decodes an attribute that a filter can compare: v is nil if there is none; known is
// false if its type is not supported.
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
