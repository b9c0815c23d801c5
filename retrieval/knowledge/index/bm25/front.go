package bm25

// A front is one point of what bounds a term's impact without knowing the average
// length, which changes with every text: how often a text has the term, and how
// long the text is. Of a term's postings only those are kept that no other both
// tops in frequency and undercuts in length (their Pareto front): the greatest
// impact is one of theirs under any average. The length stands in the upper bits,
// cut off at what fits; a text that is taken for shorter than it is still gives an upper bound.
type front uint32

const maxFrontLength = 1<<(32-freqBits) - 1

// fewPostings is the number of postings up to which a term has no front: going through them
// is as fast.
const fewPostings = 8

// frontFreqs is the frequency from which on all frequencies of a term share one point: the
// greatest of them in the shortest text.
const frontFreqs = 64

// frontsOf returns the fronts of all terms, and where those of each start.
func frontsOf(d *draft) (fronts []front, starts []uint32) {
	starts = make([]uint32, len(d.starts))
	var shortest [frontFreqs]uint32 // length + 1 by frequency; 0 is none
	for t := range len(starts) - 1 {
		if postings := d.postings[d.starts[t]:d.starts[t+1]]; len(postings) > fewPostings {
			most := uint32(0)
			for _, p := range postings {
				f := uint32(p & maxFreq)
				most = max(most, f)
				if n := &shortest[min(f, frontFreqs-1)]; *n == 0 || d.lengths[p.text()] < *n-1 {
					*n = min(d.lengths[p.text()], maxFrontLength) + 1
				}
			}
			fronts = appendFront(fronts, &shortest, most)
		}
		starts[t+1] = uint32(len(fronts))
	}
	return fronts, starts
}

// appendFront appends the points that none of higher frequency undercuts, and
// empties shortest.
func appendFront(fronts []front, shortest *[frontFreqs]uint32, most uint32) []front {
	last := uint32(0)
	for f := min(most, frontFreqs-1); f > 0; f-- {
		n := shortest[f]
		if n > 0 && (last == 0 || n < last) {
			fronts = append(fronts, front((n-1)<<freqBits|most))
			last = n
		}
		most = f - 1
	}
	clear(shortest[:])
	return fronts
}

// most returns the greatest impact that a text of the segment has for a term where texts
// have an average length, or a little more; a dead text's counts too.
func (v *view) most(t uint32, average float64) (most float32) {
	postings := v.segment.of(t)
	if len(postings) <= fewPostings {
		for _, p := range postings {
			most = max(most, impact(p.freq(), norm(v.segment.lengths[p.text()], average)))
		}
		return most
	}
	s := v.segment
	for _, f := range s.fronts[s.frontStarts[t]:s.frontStarts[t+1]] {
		most = max(most, impact(float32(f&maxFreq), norm(uint32(f>>freqBits), average)))
	}
	return most
}
