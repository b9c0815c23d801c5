package retrieval

import (
	"math"
)

// A Fusion is how lists of candidates become one.
type Fusion string

// The fusions.
const (
	FusionScores Fusion = ""    // by scores that are brought to one scale, see Distribution
	FusionRanks  Fusion = "rrf" // by ranks, see ReciprocalRank
)

// ReciprocalRank is what a candidate of a rank, which counts from 1, gets of one list: in reciprocal
// rank fusion (G. V. Cormack, C. L. A. Clarke and S. Büttcher, SIGIR 2009, with their k of 60) the
// sum over lists, each of a weight, is its score. It is scaled so that the first rank has 1.
func ReciprocalRank(rank int) float64 {
	const k = 60
	return (k + 1) / (k + float64(rank))
}

// A Distribution is that of the scores of an arm's candidates. It brings scores of different
// arms to one scale (distribution-based score fusion, M. Mazzeschi, 2023, as in Qdrant).
type Distribution struct{ mean, deviation float64 }

// DistributionOf returns the distribution of scores.
func DistributionOf(scores []float64) (d Distribution) {
	for _, s := range scores {
		d.mean += s / float64(len(scores))
	}
	for _, s := range scores {
		d.deviation += (s - d.mean) * (s - d.mean) / float64(len(scores))
	}
	d.deviation = math.Sqrt(d.deviation)
	return d
}

// Scale returns where a score lies between three deviations below the mean, which is 0, and
// three above, which is 1. Higher scores come out higher, beyond 1 too: the best of many
// candidates often lie there, and are to be told apart. Where all scores are equal it is ½.
func (d Distribution) Scale(score float64) float64 {
	const reach = 3
	if d.deviation < 1e-9 { // rounding
		return .5
	}
	return (score - d.mean + reach*d.deviation) / (2 * reach * d.deviation)
}
