package bm25

import (
	"runtime"
	"slices"
)

// Sample returns the term of the posting at fraction pick, in [0,1), of all live postings in the
// order of their terms. So the probability of a term is proportional to its document frequency,
// and it does not depend on how texts are divided into segments. It is "" if there are no
// postings.
func (x *Index) Sample(pick float64) string {
	return x.Sampler(nil).Sample(pick, "")
}

// A Sampler samples several terms of an Index. It is not safe for concurrent use.
type Sampler struct {
	index  *Index
	change *Change // may be nil
	ranges []termRange
	total  int              // live postings
	places map[string]place // of guessed terms
}

// A place is the range of a term's postings among all, in the order of their terms.
type place struct{ start, end int }

// Sampler returns a Sampler. It is faster for terms that were known before change, which may be
// nil.
func (x *Index) Sampler(change *Change) *Sampler {
	s := &Sampler{index: x, change: change, ranges: make([]termRange, len(x.views)), places: map[string]place{}}
	for i, v := range x.views {
		n := uint32(v.segment.terms())
		s.total += int(v.before[n])
		s.ranges[i] = termRange{v.Live, 0, n}
	}
	runtime.KeepAlive(x)
	return s
}

// Sample is Index.Sample, but takes a tenth of the time if the result is guess. "" is no guess.
func (s *Sampler) Sample(pick float64, guess string) string {
	defer runtime.KeepAlive(s.index)
	at := int(pick * float64(s.total))
	if guess != "" {
		p, known := s.places[guess]
		if !known {
			p = s.place(guess)
			s.places[guess] = p
		}
		if p.start <= at && at < p.end {
			return guess
		}
	}
	return selectTerm(slices.Clone(s.ranges), at)
}

// place returns the range of a term, which is empty if it does not occur.
func (s *Sampler) place(term string) (p place) {
	k := s.index.look(term, s.change)
	for i, v := range s.index.views {
		p.start += int(v.before[k.in[i].id])
	}
	p.end = p.start + k.texts
	return p
}

// A termRange is the terms lo to hi of a segment in which a term is searched.
type termRange struct {
	*Live
	lo, hi uint32
}

func (r termRange) len() int { return int(r.hi - r.lo) }

// selectTerm returns the term of the posting at the given position. It repeatedly halves the
// longest range: merging the term tables up to the position would read all of them.
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
