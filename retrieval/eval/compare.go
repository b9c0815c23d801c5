package eval

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// A Pair is the outcome of one query in two runs.
type Pair struct{ A, B Outcome }

// Pairs returns the queries that are in both runs, in the order of a.
func Pairs(a, b []Outcome) []Pair {
	at := make(map[string]int, len(b))
	for i, o := range b {
		at[o.Query.ID] = i
	}
	var pairs []Pair
	for _, o := range a {
		if i, both := at[o.Query.ID]; both {
			pairs = append(pairs, Pair{o, b[i]})
		}
	}
	return pairs
}

// Gain returns by how much the nDCG of B is higher.
func (p Pair) Gain() float64 { return p.B.NDCG - p.A.NDCG }

// Changed returns the pairs whose nDCG differs, or of which only one has a relevant source. Those
// with the largest difference come first.
func Changed(pairs []Pair) []Pair {
	changed := slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return p.Gain() == 0 && p.A.Hit == p.B.Hit })
	slices.SortStableFunc(changed, func(p, q Pair) int {
		return cmp.Or(cmp.Compare(math.Abs(q.Gain()), math.Abs(p.Gain())), cmp.Compare(one(q.A.Hit != q.B.Hit), one(p.A.Hit != p.B.Hit)))
	})
	return changed
}

const (
	// permutations is the number of random swaps; up to exactPairs differences all are tried.
	permutations = 100_000
	exactPairs   = 16
	testSeed     = 1
)

// Randomization returns the two-sided p value of Fisher's randomization test on the differences of
// pairs: the share of all ways to swap the members of pairs in which the mean difference is at
// least as large as the observed one (M. Smucker, J. Allan, B. Carterette, A Comparison of
// Statistical Significance Tests for Information Retrieval Evaluation, CIKM 2007). For many pairs
// 100,000 ways are drawn with a fixed seed, and the observed one is counted too, so that p is
// never 0. Without a difference p is 1.
func Randomization(differences []float64) (p float64) {
	var d []float64 // swapping equal ones changes nothing
	sum, size := 0.0, 0.0
	for _, x := range differences {
		if x != 0 {
			d, sum, size = append(d, x), sum+x, size+math.Abs(x)
		}
	}
	if len(d) == 0 {
		return 1
	}
	least := math.Abs(sum) - 1e-12*size // allow for rounding of sums in another order
	if len(d) <= exactPairs {
		n, all := 0, uint64(1)<<len(d)
		for signs := range all {
			if math.Abs(signed(d, signs)) >= least {
				n++
			}
		}
		return float64(n) / float64(all)
	}
	random, n := rand.New(rand.NewPCG(testSeed, uint64(len(d)))), 1 //nolint:gosec // a draw, no secret
	for range permutations {
		sum := 0.0
		for rest := range slices.Chunk(d, 64) {
			sum += signed(rest, random.Uint64())
		}
		if math.Abs(sum) >= least {
			n++
		}
	}
	return float64(n) / (permutations + 1)
}

// signed returns the sum of at most 64 numbers, with those negated whose bit is set.
func signed(d []float64, signs uint64) (sum float64) {
	for _, x := range d {
		sum += math.Float64frombits(math.Float64bits(x) ^ bits.RotateLeft64(signs&1, 63))
		signs >>= 1
	}
	return sum
}

// A Difference compares one measure of two runs: the means, and the p value of Randomization.
type Difference struct{ A, B, P float64 }

// Compare returns the Difference of a measure.
func Compare(pairs []Pair, measure func(Outcome) float64) Difference {
	var d Difference
	differences := make([]float64, len(pairs))
	for i, p := range pairs {
		a, b := measure(p.A), measure(p.B)
		d.A, d.B, differences[i] = d.A+a/float64(len(pairs)), d.B+b/float64(len(pairs)), b-a
	}
	d.P = Randomization(differences)
	return d
}
