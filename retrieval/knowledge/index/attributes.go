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
	found := map[string]*tally{}
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
			for key, v := range set {
				if counts[i] == 0 {
					continue
				}
				if found[key] == nil {
					found[key] = &tally{types: map[string]bool{}}
				}
				found[key].add(v, counts[i])
			}
		}
	}
	out := make([]Attribute, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t := found[key]
		out = append(out, Attribute{Key: key, Documents: t.documents, Types: slices.Sorted(maps.Keys(t.types)), Examples: t.examples})
	}
	return out
}

// A tally is what was found under a key.
type tally struct {
	documents int
	types     map[string]bool
	examples  []any // in order
}

// add takes the value of a number of documents.
func (t *tally) add(v any, documents int) {
	t.documents += documents
	switch v := v.(type) {
	case bool:
		t.types["boolean"] = true
		t.example(v)
	case float64:
		t.types["number"] = true
		t.example(v)
	case string:
		t.types["string"] = true
		t.example(v)
	case []string:
		t.types["list"] = true
		for _, e := range v {
			t.example(e)
		}
	}
}

// example keeps the value if it is one of the first.
func (t *tally) example(v any) {
	if at, known := slices.BinarySearchFunc(t.examples, v, compareExamples); !known && at < exampleValues {
		t.examples = slices.Insert(t.examples, at, v)
		t.examples = t.examples[:min(len(t.examples), exampleValues)]
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
