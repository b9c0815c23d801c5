package index

import (
	"cmp"
	"maps"
	"slices"
)

// exampleValues is how many values an Attribute shows.
const exampleValues = 5

// An Attribute is what documents have under one key.
type Attribute struct {
	Key       string
	Documents int      // that have it
	Types     []string // of its values, of "boolean", "list", "number", "string", sorted
	Examples  []any    // at most five different values: booleans, then the least numbers, then the first strings, of lists the elements
}

// Attributes returns what attributes the documents have, by key. It goes through all of
// them.
func (s Segments) Attributes() []Attribute {
	found := map[string]*Attribute{}
	for _, s := range s {
		sets, err := s.sets()
		if err != nil {
			continue // the next search with a filter reports it
		}
		counts := make([]int, len(sets))
		for d := range s.texts.documents {
			if !s.Gone.Has(d) {
				counts[number(s.texts.setOf, d)]++
			}
		}
		for i, set := range sets {
			if counts[i] == 0 {
				continue
			}
			for key, v := range set {
				if found[key] == nil {
					found[key] = &Attribute{Key: key}
				}
				found[key].add(v, counts[i])
			}
		}
	}
	out := make([]Attribute, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[key])
	}
	return out
}

// add takes the value of a number of documents.
func (a *Attribute) add(v any, documents int) {
	a.Documents += documents
	switch v := v.(type) {
	case bool:
		a.value("boolean", v)
	case float64:
		a.value("number", v)
	case string:
		a.value("string", v)
	case []string:
		elements := make([]any, len(v))
		for i, e := range v {
			elements[i] = e
		}
		a.value("list", elements...)
	}
}

// value notes a type, and the examples that are among the first.
func (a *Attribute) value(kind string, examples ...any) {
	if at, known := slices.BinarySearch(a.Types, kind); !known {
		a.Types = slices.Insert(a.Types, at, kind)
	}
	for _, v := range examples {
		if at, known := slices.BinarySearchFunc(a.Examples, v, compareExamples); !known && at < exampleValues {
			a.Examples = slices.Insert(a.Examples, at, v)
			a.Examples = a.Examples[:min(len(a.Examples), exampleValues)]
		}
	}
}

func compareExamples(a, b any) int {
	kind := func(v any) (order int, number float64, text string) {
		switch v := v.(type) {
		case bool:
			if v {
				number = 1
			}
			return 0, number, ""
		case float64:
			return 1, v, ""
		}
		text, _ = v.(string)
		return 2, 0, text
	}
	i, x, s := kind(a)
	j, y, u := kind(b)
	return cmp.Or(cmp.Compare(i, j), cmp.Compare(x, y), cmp.Compare(s, u))
}
