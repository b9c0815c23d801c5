package retrieval_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval"
)

// Scores with another unit and another zero are mapped to the same scale.
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

// The first rank scores 1; later ranks score less, with smaller and smaller differences.
func TestReciprocalRank(t *testing.T) {
	if got := retrieval.ReciprocalRank(1); got != 1 {
		t.Errorf("the first gets %v", got)
	}
	for rank := 2; rank < 100; rank++ {
		before, here, after := retrieval.ReciprocalRank(rank-1), retrieval.ReciprocalRank(rank), retrieval.ReciprocalRank(rank+1)
		if !(before-here > here-after && here > after && after > 0) {
			t.Errorf("ranks around %d get %v, %v and %v", rank, before, here, after)
		}
	}
}

// With ranks, candidates found by several lists rank above those found by one, whatever the
// scores. Queries of a plan weigh less than the question, all engines weigh the same. Candidates
// below the threshold of their list are still excluded, and a single list keeps its order.
func TestPipelineFusesRanks(t *testing.T) {
	found := map[string][]retrieval.Source{
		"a question": {chunk("one.md", 0, 6, "only the question finds it"), chunk("both.md", 0, 5, "both find this"), chunk("weak.md", 0, 1, "too weak for that")},
		"a plan":     {chunk("planned.md", 0, 900, "what the plan alone finds"), chunk("both.md", 0, 30, "both find this")},
		"b question": {chunk("scoreless.md", 0, 0.02, "an engine of small scores")},
	}
	floors := map[string]float64{"a question": 2, "a plan": 20}
	engine := func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		of := q.Bases[0].Knowledge + " " + q.Text
		list := slices.Clone(found[of])
		for i := range list {
			list[i].Knowledge = q.Bases[0].Knowledge
		}
		return retrieval.Result{Sources: list, Bases: q.Bases, Floor: floors[of]}, nil
	}
	ask := func(q retrieval.Query, fusion retrieval.Fusion) retrieval.Result {
		q.Settings.Fusion = fusion
		res, err := engines{"a": engine, "b": engine}.pipeline().Retrieve(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	q := asking("a", "b")
	q.Further = []string{"plan"}
	want := "in  a/both.md#0\nin  a/one.md#0\nin  b/scoreless.md#0\nin  a/planned.md#0\nout a/weak.md#0 score: score 1.0 < 2.0\n5 retrieved, 5 unique"
	if diff := cmp.Diff(want, outcome(ask(q, retrieval.FusionRanks))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := ask(q, retrieval.FusionScores).Sources[0].Doc; got != "planned.md" {
		t.Errorf("by scores %s is first, which ranks are to differ from", got)
	}
	if diff := cmp.Diff(ask(asking("a"), "rff"), ask(asking("a"), retrieval.FusionRanks), cmpopts.IgnoreFields(retrieval.Result{}, "Took")); diff != "" {
		t.Errorf("a single list by ranks (-scores +ranks):\n%s", diff)
	}
}
