package bm25

import "runtime"

// Sample returns the term of the posting that stands at the share pick, in [0,1),
// of all live postings in the order of their terms: terms are drawn as often as
// there are texts that have them, and the same texts give the same term however
// they lie in segments. It is "" where there are no postings.
func (x *Index) Sample(pick float64) string {
	defer runtime.KeepAlive(x)
	total := 0
	ranges := make([]termRange, len(x.views))
	for i, v := range x.views {
		n := uint32(v.segment.terms())
		total += int(v.before[n])
		ranges[i] = termRange{v.Live, 0, n}
	}
	return selectTerm(ranges, int(pick*float64(total)))
}

// A termRange is the terms lo to hi of a segment, among which one is looked for.
type termRange struct {
	*Live
	lo, hi uint32
}

func (r termRange) len() int { return int(r.hi - r.lo) }

// selectTerm returns the term of the posting at the given place. It halves the
// longest range again and again: merging the term tables up to the place would
// cost a pass over all of them.
func selectTerm(ranges []termRange, at int) string {
	cuts := make([]termRange, len(ranges)) // where the pivot starts and ends in each
	for {
		var longest termRange
		for _, r := range ranges {
			if r.len() > longest.len() {
				longest = r
			}
		}
		if longest.len() == 0 {
			return ""
		}
		pivot := string(longest.segment.term(longest.lo + uint32(longest.len()/2)))
		before, through := 0, 0
		for i, r := range ranges {
			lo := r.segment.lowerBound(pivot, r.lo, r.hi)
			hi := lo
			if lo < r.hi && string(r.segment.term(lo)) == pivot {
				hi++
			}
			cuts[i] = termRange{r.Live, lo, hi}
			before, through = before+int(r.before[lo]), through+int(r.before[hi])
		}
		switch {
		case at < before:
			for i, c := range cuts {
				ranges[i].hi = c.lo
			}
		case at >= through:
			for i, c := range cuts {
				ranges[i].lo = c.hi
			}
		default:
			return pivot
		}
	}
}
