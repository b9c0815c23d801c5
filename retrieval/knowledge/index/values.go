package index

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge/chunk"
)

// Attribute values are indexed when a segment is written, so that filters need not decode the
// attributes of every document. The index contains keys, ascending; for each key its values,
// ascending; and for each value the sets of attributes that contain it, ascending. A value is
// encoded as its kind followed by bytes whose order is that of the values.
const (
	boolValue    = 1 + iota // a byte, 0 or 1
	numberValue             // the bits of a float64, changed so that they sort like numbers
	textValue               // a string
	elementValue            // an element of a list: a string
	listValue               // marks a list, which may be empty; no bytes follow
	endOfKinds
)

// encodeValue returns a bool, float64 or string as it is in the index.
func encodeValue(v any) string {
	switch v := v.(type) {
	case bool:
		if v {
			return "\x01\x01"
		}
		return "\x01\x00"
	case float64:
		bits := math.Float64bits(v + 0) // -0 is 0
		if bits>>63 == 1 {
			bits = ^bits
		} else {
			bits |= 1 << 63
		}
		return string(binary.BigEndian.AppendUint64([]byte{numberValue}, bits))
	case string:
		return "\x03" + v
	}
	panic("BUG: an attribute of a type that none has")
}

// decodeValue reverses encodeValue, and also decodes elements of lists; it returns nil for
// listValue.
func decodeValue(value []byte) any {
	switch value[0] {
	case boolValue:
		return value[1] == 1
	case numberValue:
		bits := binary.BigEndian.Uint64(value[1:])
		if bits>>63 == 1 {
			return math.Float64frombits(bits &^ (1 << 63))
		}
		return math.Float64frombits(^bits)
	case textValue, elementValue:
		return string(value[1:])
	}
	return nil
}

// validValue reports whether decodeValue can decode a value.
func validValue(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	switch value[0] {
	case boolValue:
		return len(value) == 2 && value[1] <= 1
	case numberValue:
		return len(value) == 9
	case textValue, elementValue:
		return true
	}
	return value[0] == listValue && len(value) == 1
}

// A valuesDraft collects the sets of attributes for each key and value.
type valuesDraft map[keyValue][]uint32

type keyValue struct{ key, value string }

// add adds a set of attributes. Sets are added in order of their numbers.
func (d valuesDraft) add(set uint32, attributes map[string]any) {
	for key, v := range attributes {
		list, is := v.([]string)
		if !is {
			d.pair(keyValue{key, encodeValue(v)}, set)
			continue
		}
		d.pair(keyValue{key, string(rune(listValue))}, set)
		for _, e := range list {
			d.pair(keyValue{key, string(rune(elementValue)) + e}, set)
		}
	}
}

// pair records that a set has a value, once.
func (d valuesDraft) pair(v keyValue, set uint32) {
	if sets := d[v]; len(sets) == 0 || sets[len(sets)-1] != set {
		d[v] = append(sets, set)
	}
}

// decode adds encoded sets of attributes, which are numbered in this order.
func (d valuesDraft) decode(sets []string) error {
	for i, set := range sets {
		attributes, err := chunk.DecodeAttributes(set)
		if err != nil {
			return err
		}
		d.add(uint32(i), attributes)
	}
	return nil
}

// take adds values of the sets of a segment. to maps these sets to numbers in the draft, or to
// noSet for those that are not wanted. It decodes no set.
func (d valuesDraft) take(x *texts, to []uint32) {
	for k := range x.keys {
		key := string(x.key(k))
		for e := number(x.keyStarts, k); e < number(x.keyStarts, k+1); e++ {
			v := keyValue{key, string(x.value(e))}
			for p := number(x.valueStarts, e); p < number(x.valueStarts, e+1); p++ {
				if set := to[number(x.pairs, p)]; set != noSet {
					d[v] = append(d[v], set)
				}
			}
		}
	}
}

// noSet marks a set that is not wanted.
const noSet = ^uint32(0)

// A valuesTable is the final form of a valuesDraft.
type valuesTable struct {
	keys, values           []string
	keyStarts, valueStarts []uint32 // one more each than keys and values
	pairs                  []uint32
}

// table sorts the draft.
func (d valuesDraft) table() (t valuesTable) {
	for _, v := range slices.SortedFunc(maps.Keys(d), func(a, b keyValue) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	}) {
		if n := len(t.keys); n == 0 || t.keys[n-1] != v.key {
			t.keys, t.keyStarts = append(t.keys, v.key), append(t.keyStarts, uint32(len(t.values)))
		}
		t.values, t.valueStarts = append(t.values, v.value), append(t.valueStarts, uint32(len(t.pairs)))
		sets := d[v]
		slices.Sort(sets) // those taken from segments are not in order
		t.pairs = append(t.pairs, sets...)
	}
	t.keyStarts, t.valueStarts = append(t.keyStarts, uint32(len(t.values))), append(t.valueStarts, uint32(len(t.pairs)))
	return t
}

// A valueIndex is the index of values in texts.
type valueIndex struct{ *texts }

// chosen reports for each set of attributes whether it matches the filter, which is not nil, as
// Filter.Match does.
func (x valueIndex) chosen(f *filter.Filter) []bool {
	out := make([]bool, x.sets)
	switch f.Type {
	case filter.And:
		for i := range out {
			out[i] = true
		}
		for i := range f.Filters {
			for set, is := range x.chosen(&f.Filters[i]) {
				out[set] = out[set] && is
			}
		}
		return out
	case filter.Or:
		for i := range f.Filters {
			for set, is := range x.chosen(&f.Filters[i]) {
				out[set] = out[set] || is
			}
		}
		return out
	}
	key, values, ok := f.Comparison()
	if !ok {
		return out
	}
	if k, found := sort.Find(x.keys, func(k int) int { return strings.Compare(key, string(x.key(k))) }); found {
		for _, v := range values {
			x.compare(f.Type, k, encodeValue(v), out)
		}
	}
	if f.Type == filter.Ne || f.Type == filter.Nin {
		for i := range out {
			out[i] = !out[i]
		}
	}
	return out
}

// compare marks the sets that have a value under a key that compares to a given one as how says;
// for ne and nin, the sets for which that is false.
func (x valueIndex) compare(how filter.Type, key int, value string, out []bool) {
	x.compareKind(how, key, value, out)
	if value[0] == textValue {
		x.compareKind(how, key, string(rune(elementValue))+value[1:], out)
	}
}

func (x valueIndex) compareKind(how filter.Type, key int, value string, out []bool) {
	first, end := number(x.keyStarts, key), number(x.keyStarts, key+1)
	from := func(bound string) int { // the first value that is not less
		return first + sort.Search(end-first, func(i int) bool { return string(x.value(first+i)) >= bound })
	}
	kind := value[0]
	at, lo, hi := from(value), from(string(rune(kind))), from(string(rune(kind+1)))
	after := at
	if at < hi && string(x.value(at)) == value {
		after++
	}
	switch ordered := kind != boolValue; {
	case how == filter.Eq, how == filter.Ne, how == filter.In, how == filter.Nin:
		lo, hi = at, after
	case how == filter.Prefix && (kind == textValue || kind == elementValue):
		lo, hi = at, at+sort.Search(hi-at, func(i int) bool { return !bytes.HasPrefix(x.value(at+i), []byte(value)) })
	case how == filter.Lt && ordered:
		hi = at
	case how == filter.Lte && ordered:
		hi = after
	case how == filter.Gt && ordered:
		lo = after
	case how == filter.Gte && ordered:
		lo = at
	default:
		return
	}
	for p := number(x.valueStarts, lo); p < number(x.valueStarts, hi); p++ {
		out[number(x.pairs, p)] = true
	}
}

// check reports whether all references in the index of values are valid and keys and values are
// sorted.
func (x valueIndex) check() bool {
	for k := 1; k < x.keys; k++ {
		if bytes.Compare(x.key(k-1), x.key(k)) >= 0 {
			return false
		}
	}
	for k := range x.keys {
		for e := number(x.keyStarts, k); e < number(x.keyStarts, k+1); e++ {
			if !validValue(x.value(e)) || e > number(x.keyStarts, k) && bytes.Compare(x.value(e-1), x.value(e)) >= 0 {
				return false
			}
		}
	}
	for p := range len(x.pairs) / 4 {
		if number(x.pairs, p) >= x.sets {
			return false
		}
	}
	return true
}
