package index

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
)

// exampleValues is how many values Attribute.Examples holds at most.
const exampleValues = 5

// An Attribute summarizes the values of all documents under one key.
type Attribute struct {
	Key       string
	Documents int      // number of documents that have it
	Types     []string // types of its values, sorted: "boolean", "list", "number", "string"
	Examples  []any    // up to five distinct values: booleans, then the least numbers, then the first strings; list elements count as strings
}

// Attributes returns the attributes of the documents, by key. It reads all documents.
func (s Segments) Attributes() []Attribute {
	found := map[string]*Attribute{}
	for _, s := range s {
		s.count(found)
	}
	out := make([]Attribute, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[key])
	}
	return out
}

// count adds the attributes of the documents in one segment.
func (l *Live) count(found map[string]*Attribute) {
	defer runtime.KeepAlive(l)
	x := &l.texts
	documents := make([]int, x.sets) // in the base, by set
	for d := range x.documents {
		if l.searched(d) {
			documents[number(x.setOf, d)]++
		}
	}
	counted := make([]int, x.sets) // 1 + the last key for which a set was counted
	for k := range x.keys {
		a := found[string(x.key(k))]
		if a == nil {
			a = &Attribute{Key: string(x.key(k))}
		}
		for v := number(x.keyStarts, k); v < number(x.keyStarts, k+1); v++ {
			here := false
			for p := number(x.valueStarts, v); p < number(x.valueStarts, v+1); p++ {
				set := number(x.pairs, p)
				here = here || documents[set] > 0
				if counted[set] <= k {
					counted[set] = k + 1
					a.Documents += documents[set]
				}
			}
			if here {
				a.add(x.value(v))
			}
		}
		if a.Documents > 0 {
			found[a.Key] = a
		}
	}
}

// add adds an encoded value.
func (a *Attribute) add(value []byte) {
	switch v := decodeValue(value); value[0] {
	case boolValue:
		a.value("boolean", v)
	case numberValue:
		a.value("number", v)
	case textValue:
		a.value("string", v)
	case elementValue:
		a.value("list", v)
	case listValue:
		a.value("list")
	}
}

// value records a type, and those examples that are among the first.
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
