package vectorstore

import (
	"encoding/json"
	"slices"

	"sidenote/retrieval"
)

// A filter is sent as it is, prefix too, which only Sidenotes know: an API that
// does not refuses it: that search fails, and Trouble says so. To write a prefix as a range from gte to
// lt would rest on an order of strings that no API promises, and would find too
// little without a word.
//
// Some APIs pass over what they do not know. So whatever comes back is held against
// the filter again: a policy does not rest on somebody else's word.

// keep returns the results that a filter chooses by what they tell of themselves.
func keep(results []result, filter *retrieval.Filter) (kept []result, dropped int) {
	if filter == nil {
		return results, 0
	}
	all := len(results)
	results = slices.DeleteFunc(results, func(r result) bool { return !r.chosen(filter) })
	return results, all - len(results)
}

// chosen is false where it cannot be told: where a result has no attributes at all,
// for gateways leave them out, or an attribute that counts is of an unknown kind.
func (r *result) chosen(filter *retrieval.Filter) bool {
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
		list := make([]string, 0, len(v))
		for _, element := range v {
			text, ok := element.(string)
			if !ok {
				return nil, false
			}
			list = append(list, text)
		}
		return list, true
	}
	return nil, false
}
