package bm25

import "sync/atomic"

// totalStep is the number of postings from which on a term's total is kept.
const totalStep = 512

// totals keeps what the terms of a Live with at least totalStep postings add up to, which is
// found when one is first asked for. The postings of no two of them begin in the same step
// of totalStep, which is therefore the place of each. Shorter ones are added up faster than
// looked up.
type totals []atomic.Uint64

func newTotals(postings int) totals { return make(totals, (postings+totalStep-1)/totalStep) }

// total returns how often the live texts that have a term have it, added up.
func (l *Live) total(t uint32) uint64 {
	postings := l.segment.of(t)
	if len(postings) < totalStep {
		return l.sum(postings)
	}
	kept := &l.totals[l.segment.starts[t]/totalStep]
	n := kept.Load()
	if n == 0 {
		n = l.sum(postings)
		kept.Store(n)
	}
	return n
}

// sum adds up the frequencies of live texts.
func (l *Live) sum(postings []posting) (n uint64) {
	if l.dead == nil {
		for _, p := range postings {
			n += uint64(p & maxFreq)
		}
		return n
	}
	for _, p := range postings {
		if !l.dead.Has(int(p.text())) {
			n += uint64(p & maxFreq)
		}
	}
	return n
}
