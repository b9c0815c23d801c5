package retrieval_test

import (
	"math"
	"testing"

	"sidenote/retrieval"
)

// Scores of another unit and another zero come to the same scale.
func TestDistribution(t *testing.T) {
	words, cosines := []float64{2, 4, 6, 8}, []float64{.41, .42, .43, .44}
	a, b := retrieval.DistributionOf(words), retrieval.DistributionOf(cosines)
	for i := range words {
		x, y := a.Scale(words[i]), b.Scale(cosines[i])
		if math.Abs(x-y) > 1e-9 || i > 0 && x <= a.Scale(words[i-1]) {
			t.Errorf("%v is %v, %v is %v", words[i], x, cosines[i], y)
		}
	}
	deviation := math.Sqrt(5)
	for score, want := range map[float64]float64{5: .5, 5 - 3*deviation: 0, 5 + 3*deviation: 1, 5 + 6*deviation: 1.5} {
		if got := a.Scale(score); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v is %v, want %v", score, got, want)
		}
	}
	for name, d := range map[string]retrieval.Distribution{
		"none": retrieval.DistributionOf(nil), "one": retrieval.DistributionOf([]float64{.1}), "equal": retrieval.DistributionOf([]float64{.1, .1, .1}),
	} {
		if got := d.Scale(.1); got != .5 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
