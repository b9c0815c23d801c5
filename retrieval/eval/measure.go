package eval

import (
	"maps"
	"math"
	"slices"
	"time"
)

// Grades maps document ids to their relevance for one query. A document without a positive grade
// is not relevant.
//
// A ranking lists distinct document ids, best first. Its measures are those of trec_eval 9 with
// its default, by which grades of 1 and more are relevant. Relevant documents count even if the
// collection lacks them. For a query without relevant documents all measures are 0.
type Grades map[string]int

// Relevant returns the number of relevant documents.
func (g Grades) Relevant() (n int) {
	for _, grade := range g {
		if grade > 0 {
			n++
		}
	}
	return n
}

// NDCG returns the normalised discounted cumulative gain of the first k (Järvelin and Kekäläinen,
// ACM TOIS 20, 2002; ndcg_cut of trec_eval): the sum of grade / log2(rank + 1), divided by that of
// the best possible ranking. The gain is the grade itself, not 2^grade - 1 as in some definitions.
func (g Grades) NDCG(ranking []string, k int) float64 {
	var found []int
	for _, doc := range first(ranking, k) {
		found = append(found, g[doc])
	}
	best := slices.Sorted(maps.Values(g))
	slices.Reverse(best)
	ideal := gain(first(best, k))
	if ideal == 0 {
		return 0
	}
	return gain(found) / ideal
}

func gain(grades []int) (sum float64) {
	for i, grade := range grades {
		sum += float64(max(grade, 0)) / math.Log2(float64(i+2))
	}
	return sum
}

// Recall returns the share of the relevant documents that are among the first k (recall of
// trec_eval).
func (g Grades) Recall(ranking []string, k int) float64 {
	relevant, found := g.Relevant(), 0
	if relevant == 0 {
		return 0
	}
	for _, doc := range first(ranking, k) {
		if g[doc] > 0 {
			found++
		}
	}
	return float64(found) / float64(relevant)
}

// ReciprocalRank returns 1 / rank of the first relevant document, or 0 if none is among the first
// k (recip_rank of trec_eval on the first k).
func (g Grades) ReciprocalRank(ranking []string, k int) float64 {
	for i, doc := range first(ranking, k) {
		if g[doc] > 0 {
			return 1 / float64(i+1)
		}
	}
	return 0
}

func first[T any](list []T, k int) []T { return list[:min(k, len(list))] }

// quantile returns the p-quantile of times by the nearest-rank method; 0 if there are none.
func quantile(times []time.Duration, p float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)]
}
