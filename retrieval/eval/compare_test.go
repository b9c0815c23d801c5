package eval_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/eval"
)

// For few differences p is the result of enumerating all swaps by hand.
func TestRandomizationIsExact(t *testing.T) {
	for _, c := range []struct {
		differences []float64
		p           float64
	}{
		{nil, 1},
		{[]float64{0, 0}, 1},
		{[]float64{1}, 1},                        // either sign is as large
		{[]float64{1, 0, 1, 1}, 2. / 8},          // +++ and ---
		{[]float64{1, 1, -1}, 1},                 // no sum of three odd numbers is below 1
		{[]float64{.5, .25, .25, -.5}, 12. / 16}, // the first and last together ±1, then all; or 0, then two of four
	} {
		if p := eval.Randomization(c.differences); math.Abs(p-c.p) > 1e-12 {
			t.Errorf("%v: p %v, want %v", c.differences, p, c.p)
		}
	}
}

// For many differences p is close to the normal approximation, the same in each run, and never 0.
func TestRandomizationOfMany(t *testing.T) {
	of := func(plus, minus int) []float64 {
		return append(slices.Repeat([]float64{.1}, plus), slices.Repeat([]float64{-.1}, minus)...)
	}
	for _, c := range []struct{ plus, minus, least, most float64 }{
		{60, 40, .05, .065},  // the sign test: .0569
		{58, 42, .125, .145}, // .1332
		{200, 0, 1e-6, 1.1e-5},
		{50, 50, 1, 1},
	} {
		d := of(int(c.plus), int(c.minus))
		p := eval.Randomization(d)
		if p < c.least || p > c.most {
			t.Errorf("%v to %v: p %v", c.plus, c.minus, p)
		}
		if again := eval.Randomization(d); again != p {
			t.Errorf("p %v, then %v", p, again)
		}
	}
}

// Swapping the two runs does not change p, and equal pairs do not count.
func TestRandomizationIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Float64Range(-1, 1), 0, 12).Draw(t, "differences")
		swapped := append([]float64{0}, d...)
		for i := range swapped {
			swapped[i] = -swapped[i]
		}
		if p, q := eval.Randomization(d), eval.Randomization(swapped); p != q || p <= 0 || p > 1 {
			t.Errorf("p %v, swapped %v", p, q)
		}
	})
}

func outcome(id string, ndcg float64, hit bool) eval.Outcome {
	return eval.Outcome{Query: eval.Query{ID: id}, Measures: eval.Measures{NDCG: ndcg}, Hit: hit}
}

// Pairs holds the queries of both runs; Changed holds those that differ, largest change first.
func TestPairs(t *testing.T) {
	a := []eval.Outcome{outcome("1", .5, true), outcome("2", .5, true), outcome("gone", 1, true), outcome("3", 0, false), outcome("4", 1, true)}
	b := []eval.Outcome{outcome("4", 0, true), outcome("3", 0, true), outcome("new", 1, true), outcome("2", .75, true), outcome("1", .5, true)}
	pairs := eval.Pairs(a, b)
	var all, changed []string
	for _, p := range pairs {
		all = append(all, p.A.Query.ID+p.B.Query.ID)
	}
	for _, p := range eval.Changed(pairs) {
		changed = append(changed, fmt.Sprintf("%s:%+g", p.A.Query.ID, p.Gain()))
	}
	if got := strings.Join(all, " ") + "; " + strings.Join(changed, " "); got != "11 22 33 44; 4:-1 2:+0.25 3:+0" {
		t.Error(got)
	}
	d := eval.Compare(pairs, func(o eval.Outcome) float64 { return o.NDCG })
	if d != (eval.Difference{A: .5, B: .3125, P: 1}) { // ±.25 ±1: all four sums are at least as large
		t.Errorf("%+v", d)
	}
}

// Stages run without a plan; Engine and Request share one plan per query.
func TestStages(t *testing.T) {
	c := tiny(t)
	plans := 0
	planned := func(answer string) retrieval.Func {
		return func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
			if q.Planning == nil || q.Planning.MaxQueries != plans {
				return retrieval.Result{}, fmt.Errorf("planning %+v of %d", q.Planning, plans)
			}
			return answers(map[string]string{leave: answer}, 0)(ctx, q)
		}
	}
	trial := eval.Trial{
		Engine: planned("a#0 b#0"), Request: planned("a#0"),
		Stages: []eval.Stage{{Name: "worse", Engine: answers(map[string]string{leave: "c#0 a#0"}, 0)}, {Name: "nothing", Engine: answers(nil, 0)}},
		Planning: func([]string) *retrieval.Planning {
			plans++
			return &retrieval.Planning{PlanSettings: retrieval.PlanSettings{MaxQueries: plans}}
		},
	}
	got, err := trial.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s := eval.Summarise(got[:1])
	if plans != 3 || len(s.Stages) != 2 || s.NDCG != 1 || s.Stages[0].ReciprocalRank != .5 || s.Stages[1] != (eval.Measures{}) {
		t.Errorf("%d plans, %+v", plans, s)
	}
	trial.Stages[1].Engine = retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{}, retrieval.ErrUnavailable
	})
	if _, err := trial.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "nothing: ") {
		t.Error(err)
	}
}

// A run has one line with columns for each document of each ranking.
func TestWriteRun(t *testing.T) {
	var b strings.Builder
	err := eval.WriteRun(&b, []eval.Outcome{
		{Query: eval.Query{ID: "q 1"}, Ranking: []string{"my file.md", "b%"}, Scores: []float64{2.5, .001}},
		{Query: eval.Query{ID: "none"}},
		{Query: eval.Query{ID: "q2"}, Ranking: []string{"ä\u00a0b"}, Scores: []float64{1}},
	}, "sidenote")
	want := "q%201 Q0 my%20file.md 1 2.5 sidenote\nq%201 Q0 b% 2 0.001 sidenote\nq2 Q0 ä%C2%A0b 1 1 sidenote\n"
	if err != nil || b.String() != want {
		t.Errorf("%v:\n%s", err, b.String())
	}
}
