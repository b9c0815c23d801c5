package bm25

// A front is one point of a bound for a term's impact that does not depend on the average length,
// which changes with every text. It holds the frequency of the term in a text and the length of
// the text. Of a term's postings only those are kept that no other both exceeds in frequency and
// undercuts in length (their Pareto front): the greatest impact is one of theirs for any average.
// The length is in the upper bits, truncated to what fits; a shorter length still gives an upper
// bound.
type front uint32

const maxFrontLength = 1<<(32-freqBits) - 1

// fewPostings is the number of postings up to which a term has no front: reading them is as fast.
const fewPostings = 8

// frontFreqs is the frequency from which all frequencies of a term share one point: the greatest
// of them with the shortest length.
const frontFreqs = 64

// frontsOf returns the fronts of all terms, and where the fronts of each term start.
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

// appendFront appends the points that no point of higher frequency undercuts, and clears shortest.
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

// most returns an upper bound for the impact of a term in the texts of the segment, given their
// average length. Dead texts count, too.
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
