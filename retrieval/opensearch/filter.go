package opensearch

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
)

// Attributes are one keyword field, attrs, with a token for each value: the length of the name, a
// colon, the name, a letter for the type, and the value. So any attribute can be filtered by without
// a mapping of its own, values of different types never match, and the tokens of one name and
// type are a range of terms. Lucene orders terms by their bytes, as Filter orders strings; numbers
// are written so that the order of the texts is theirs.
const (
	typeBool   = "b"
	typeNumber = "n"
	typeString = "s"
)

func attributePrefix(key, kind string) string { return strconv.Itoa(len(key)) + ":" + key + kind }

// attributeTokens returns the tokens of a document's attributes.
func attributeTokens(attributes map[string]any) []string {
	var tokens []string
	for _, key := range sortedKeys(attributes) {
		if list, ok := attributes[key].([]string); ok {
			for _, v := range list {
				tokens = append(tokens, token(key, v))
			}
			continue
		}
		tokens = append(tokens, token(key, attributes[key]))
	}
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// token returns the token of a single value.
func token(key string, v any) string {
	switch v := v.(type) {
	case string:
		return attributePrefix(key, typeString) + v
	case bool:
		return attributePrefix(key, typeBool) + strconv.FormatBool(v)
	case float64:
		return attributePrefix(key, typeNumber) + orderedNumber(v)
	}
	panic(fmt.Sprintf("BUG: an attribute of type %T was not refused", v))
}

// orderedNumber returns 16 hexadecimal digits with the order of the numbers: the bits of a
// positive float64 have it, once the sign bit is set, and those of a negative one the reverse.
func orderedNumber(v float64) string {
	bits := math.Float64bits(v + 0) // -0 equals 0
	if bits>>63 == 0 {
		bits |= 1 << 63
	} else {
		bits = ^bits
	}
	return fmt.Sprintf("%016x", bits)
}

// tokensOf returns the tokens of attributes in their stored form.
func tokensOf(attributes string) ([]string, error) {
	if attributes == "" || attributes == "{}" {
		return nil, nil
	}
	decoded, err := chunk.DecodeAttributes(attributes)
	if err != nil {
		return nil, err
	}
	return attributeTokens(decoded), nil
}

var matchNone = object{"match_none": object{}}

// filterQuery returns the query that matches what a filter matches.
func filterQuery(f *filter.Filter) object {
	switch f.Type {
	case filter.And, filter.Or:
		parts := make([]object, len(f.Filters))
		for i := range f.Filters {
			parts[i] = filterQuery(&f.Filters[i])
		}
		if f.Type == filter.And {
			return object{"bool": object{"filter": parts}}
		}
		return object{"bool": object{"should": parts, "minimum_should_match": 1}}
	}
	key, values, ok := f.Comparison()
	if !ok {
		return matchNone
	}
	switch f.Type {
	case filter.Eq, filter.In:
		return anyToken(key, values)
	case filter.Ne, filter.Nin:
		return object{"bool": object{"must_not": []object{anyToken(key, values)}}}
	case filter.Prefix:
		if text, ok := values[0].(string); ok {
			return object{"prefix": object{"attrs": object{"value": token(key, text)}}}
		}
	case filter.Gt, filter.Gte, filter.Lt, filter.Lte:
		return tokenRange(f.Type, key, values[0])
	}
	return matchNone
}

func anyToken(key string, values []any) object {
	tokens := make([]string, len(values))
	for i, v := range values {
		tokens[i] = token(key, v)
	}
	return object{"terms": object{"attrs": tokens}}
}

// tokenRange returns the query of a comparison, which ends at the tokens of another name or type.
func tokenRange(t filter.Type, key string, value any) object {
	kind := typeString
	switch value.(type) {
	case float64:
		kind = typeNumber
	case bool:
		return matchNone // has no order
	}
	bounds := object{}
	if t == filter.Gt || t == filter.Gte {
		bounds["lt"] = attributePrefix(key, string(kind[0]+1))
	} else {
		bounds["gte"] = attributePrefix(key, kind)
	}
	bounds[string(t)] = token(key, value)
	return object{"range": object{"attrs": bounds}}
}
