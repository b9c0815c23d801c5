package bm25

import "sync/atomic"

// totalStep is the number of postings from which a term's total is cached.
const totalStep = 512

// totals caches the totals of the terms of a Live with at least totalStep postings, computed on
// first use. No two such terms' postings begin in the same step of totalStep, so the step is the
// index. Shorter ones are summed faster than looked up.
type totals []atomic.Uint64

func newTotals(postings int) totals { return make(totals, (postings+totalStep-1)/totalStep) }

// total returns the sum of a term's frequencies in the live texts.
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
