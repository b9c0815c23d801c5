package retrieval

import (
	"math"
)

// A Fusion is a method that merges lists of candidates.
type Fusion string

// The fusions.
const (
	FusionScores Fusion = ""    // by scores on a common scale, see Distribution
	FusionRanks  Fusion = "rrf" // by ranks, see ReciprocalRank
)

// ReciprocalRank returns the score of a rank, counted from 1, in one list. In reciprocal rank
// fusion (G. V. Cormack, C. L. A. Clarke and S. Büttcher, SIGIR 2009, with their k of 60) a
// candidate's score is the weighted sum over the lists. It is scaled so that the first rank scores
// 1.
func ReciprocalRank(rank int) float64 {
	const k = 60
	return (k + 1) / (k + float64(rank))
}

// A Distribution describes the scores of an arm's candidates. It brings scores of different arms
// to one scale (distribution-based score fusion, M. Mazzeschi, 2023, as in Qdrant).
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

// Scale maps three standard deviations below the mean to 0, and three above to 1. Higher scores
// always map higher, even beyond 1, so that the best of many candidates can be told apart. If all
// scores are equal, it returns ½.
func (d Distribution) Scale(score float64) float64 {
	const reach = 3
	if d.deviation < 1e-9 { // rounding error
		return .5
	}
	return (score - d.mean + reach*d.deviation) / (2 * reach * d.deviation)
}
