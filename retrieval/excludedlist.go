package retrieval

import (
	"iter"
	"slices"
)

// ExcludedList are the candidates of a search that are not among its sources, in their order. There are
// dozens of each new question, which hardly anybody reads: they are written once, as bytes, and
// results, caches and reports share these. The zero ExcludedList is none.
type ExcludedList struct {
	list  string  // see Packer
	floor float64 // of the search, by which scores became relevances
	// names has the name and the section of each candidate whose text its engine keeps; "" where
	// nobody has read them.
	names  string
	counts excludedCounts
}

// NewExcludedList returns candidates that fell.
func NewExcludedList(list []Excluded) ExcludedList { return fallenOf(list, 0) }

func fallenOf(list []Excluded, floor float64) ExcludedList {
	var p excludedPacker
	p.Reset(floor)
	for i := range list {
		x := &list[i]
		p.Add(x, Label{Doc: []byte(x.Doc), Chunk: x.Chunk, Name: []byte(x.Name), Section: []byte(x.Section)})
	}
	return p.Fallen()
}

// Len returns how many they are.
func (f ExcludedList) Len() int {
	n := 0
	for _, of := range f.counts {
		n += int(of)
	}
	return n
}

// Equal tells whether the same candidates fell for the same reasons.
func (f ExcludedList) Equal(g ExcludedList) bool {
	return f.Packed(0) == g.Packed(0) && f.names == g.names
}

// Bytes returns about the memory that they take.
func (f ExcludedList) Bytes() int { return len(f.list) + len(f.names) }

// excludedCounts are how many fell, by the place of the reason in Reasons.
type excludedCounts [NumExcludeReasons]uint32

// NumExcludeReasons is how many reasons there are.
const NumExcludeReasons = 7

// ExcludeReasons returns the reasons of a search; "" stands for all others.
func ExcludeReasons() [NumExcludeReasons]ExcludeReason {
	return [NumExcludeReasons]ExcludeReason{"", ExcludedScore, ExcludedDup, ExcludedDocument, ExcludedTopK, ExcludedRerank, ExcludedGrade}
}

func numberOf(reason ExcludeReason) int {
	all := ExcludeReasons()
	return max(0, slices.Index(all[:], reason))
}

// Fell returns how many fell for one of Reasons.
func (f ExcludedList) Fell(reason ExcludeReason) int { return int(f.counts[numberOf(reason)]) }

// Counts returns how many fell for each reason.
func (f *ExcludedList) Counts() excludedCounts { return f.counts }

// All goes through the candidates.
func (f ExcludedList) All() iter.Seq[Excluded] {
	return func(yield func(Excluded) bool) {
		r, names := f.unpacker(), nameReader{BinaryReader: BinaryReader{Rest: f.names}}
		for r.more() {
			x := r.next()
			if x.At.Kept && f.names != "" {
				x.Name, x.Section = names.next()
			}
			if !yield(x) {
				return
			}
		}
	}
}

// List returns the candidates.
func (f ExcludedList) List() []Excluded { return slices.Collect(f.All()) }

// Packed returns all but the names that engines have, for ReadFallen with the same floor.
func (f ExcludedList) Packed(floor float64) string {
	if f.list != "" && !identical(f.floor, floor) {
		return fallenOf(f.List(), floor).list
	}
	return f.list
}

// ReadExcludedList returns what Packed wrote; false where that is anything else.
func ReadExcludedList(list string, floor float64) (f ExcludedList, ok bool) {
	f.list, f.floor = list, floor
	r := f.unpacker()
	for r.check = true; r.more(); {
		x := r.next()
		f.counts[numberOf(x.Reason)]++
	}
	return f, !r.Broken
}

// Named returns the same with the names that an engine has: label calls its argument with the label
// of each candidate whose text the engine keeps, in their order.
func (f ExcludedList) Named(label func(add func(Label)) error) (ExcludedList, error) {
	var names fallenNames
	if err := label(func(l Label) { names.add(l.Name, l.Section) }); err != nil {
		return ExcludedList{}, err
	}
	f.names = names.packed()
	return f, nil
}
