package retrieval

import (
	"iter"
	"slices"
)

// ExcludedList holds the candidates of a search that are not among its sources, in order. A search
// excludes dozens of candidates that are seldom looked at, so they are encoded once, as bytes that
// results, caches and reports share. The zero ExcludedList is empty.
type ExcludedList struct {
	list  string  // see excludedPacker
	floor float64 // of the search; relates scores to relevances
	// names holds name and section of each candidate whose text its engine keeps; "" until
	// WithNames has read them.
	names  string
	counts excludedCounts
}

// NewExcludedList encodes a list of excluded candidates.
func NewExcludedList(list []Excluded) ExcludedList { return excludedListOf(list, 0) }

func excludedListOf(list []Excluded, floor float64) ExcludedList {
	var p excludedPacker
	p.Reset(floor)
	for i := range list {
		x := &list[i]
		p.Add(x, Label{Doc: []byte(x.Doc), Chunk: x.Chunk, Name: []byte(x.Name), Section: []byte(x.Section)})
	}
	return p.List()
}

// Len returns the number of candidates.
func (f ExcludedList) Len() int {
	n := 0
	for _, of := range f.counts {
		n += int(of)
	}
	return n
}

// Equal reports whether f and g hold the same candidates, excluded for the same reasons.
func (f ExcludedList) Equal(g ExcludedList) bool {
	return f.Packed(0) == g.Packed(0) && f.names == g.names
}

// Bytes returns the approximate memory use.
func (f ExcludedList) Bytes() int { return len(f.list) + len(f.names) }

// excludedCounts counts candidates by the index of their reason in ExcludeReasons.
type excludedCounts [NumExcludeReasons]uint32

// NumExcludeReasons is the number of reasons.
const NumExcludeReasons = 7

// ExcludeReasons returns all reasons; "" stands for an unknown one.
func ExcludeReasons() [NumExcludeReasons]ExcludeReason {
	return [NumExcludeReasons]ExcludeReason{"", ExcludedScore, ExcludedDup, ExcludedDocument, ExcludedTopK, ExcludedRerank, ExcludedGrade}
}

func numberOf(reason ExcludeReason) int {
	all := ExcludeReasons()
	return max(0, slices.Index(all[:], reason))
}

// Count returns the number of candidates excluded for a reason.
func (f ExcludedList) Count(reason ExcludeReason) int { return int(f.counts[numberOf(reason)]) }

// Counts returns the number of candidates by reason.
func (f *ExcludedList) Counts() excludedCounts { return f.counts }

// All iterates over the candidates.
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

// List returns all candidates.
func (f ExcludedList) List() []Excluded { return slices.Collect(f.All()) }

// Packed encodes all but the names set by WithNames, for ReadExcludedList with the same floor.
func (f ExcludedList) Packed(floor float64) string {
	if f.list != "" && !identical(f.floor, floor) {
		return excludedListOf(f.List(), floor).list
	}
	return f.list
}

// ReadExcludedList decodes what Packed returned; ok is false if it is malformed.
func ReadExcludedList(list string, floor float64) (f ExcludedList, ok bool) {
	f.list, f.floor = list, floor
	r := f.unpacker()
	for r.check = true; r.more(); {
		x := r.next()
		f.counts[numberOf(x.Reason)]++
	}
	return f, !r.Broken
}

// WithNames returns f with the names of those candidates whose texts engines keep. label must call
// its argument with the label of each of them, in order.
func (f ExcludedList) WithNames(label func(add func(Label)) error) (ExcludedList, error) {
	var names excludedNames
	if err := label(func(l Label) { names.add(l.Name, l.Section) }); err != nil {
		return ExcludedList{}, err
	}
	f.names = names.packed()
	return f, nil
}
