package retrieval_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
)

func TestRelevance(t *testing.T) {
	for _, c := range []struct{ score, floor, want float64 }{
		{3, 3, 0.5}, {9, 3, 0.75}, {1, 3, 0.25}, {0, 3, 0}, {-1, 3, 0}, {0.5, 0, 0.5}, {0.75, -2, 0.75}, {0.25, math.NaN(), 0.25}, {0.5, math.Inf(1), 0.5}, {1, 0, 1 - 1.0/(1<<53)}, {7, 0, 1 - 1.0/(1<<53)}, {-1, 0, 0}, {math.NaN(), 1, 0},
	} {
		if got := retrieval.Relevance(c.score, c.floor); got != c.want {
			t.Errorf("score %v, floor %v: %v, want %v", c.score, c.floor, got, c.want)
		}
	}
}

// For every score the relevance is in [0,1), monotonic, and can be converted back.
func TestRelevanceLeadsBack(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b, floor := rapid.Float64().Draw(r, "a"), rapid.Float64().Draw(r, "b"), rapid.Float64().Draw(r, "floor")
		ra, rb := retrieval.Relevance(a, floor), retrieval.Relevance(b, floor)
		if !(ra >= 0 && ra < 1) || a < b && ra > rb {
			r.Fatalf("%v of %v, %v of %v", ra, a, rb, b)
		}
		if back := retrieval.FromRelevance(a, floor); math.IsNaN(back) || math.IsInf(back, 0) || back < 0 {
			r.Fatalf("relevance %v, floor %v: score %v", a, floor, back)
		}
		of, usual := rapid.Float64Range(0, 1000).Draw(r, "score"), rapid.Float64Range(0.1, 100).Draw(r, "usual floor")
		if back := retrieval.FromRelevance(retrieval.Relevance(of, usual), usual); math.Abs(back-of) > 1e-9*(1+of) {
			r.Fatalf("score %v came back as %v", of, back)
		}
	})
}
