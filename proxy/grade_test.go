package proxy_test

import (
	"context"
	"errors"
	"testing"

	"sidenote/cache"
	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
)

// graded returns request with a grader.
func graded(tokens int64) proxy.PlanRequest {
	r := request(tokens)
	r.Grade = retrieval.GradeSettings{By: retrieval.GradeByModel, Upstream: "grades", Address: "http://grades.test", Model: "m"}
	return r
}

func graders(m *budget.Meter, a proxy.PlanAPI) *proxy.Planners {
	return &proxy.Planners{Graders: map[string]proxy.PlanUpstream{"grades": {API: a}}, Scores: cache.NewScores(tier(), nil), Models: models{}, Meter: m}
}

// A grader's calls are charged as kind grade. A second list of documents, as in a second round, is
// another call; the same list again is not.
func TestGradeCharges(t *testing.T) {
	l, m := ledger(t)
	asked := 0
	by := graders(m, api(func(ctx context.Context, to services.LLMCall) (services.LLMAnswer, error) {
		asked++
		return judges(1)(ctx, to)
	})).Grader(graded(1e6))
	for _, documents := range [][]string{{"a"}, {"b"}, {"a"}, {"b"}} {
		if got, err := by.Rerank(t.Context(), "q", documents); err != nil || len(got) != 1 || got[0] != .5 {
			t.Errorf("%v, %v", got, err)
		}
	}
	if got := kind(t, l, budget.Grade); asked != 2 || got.Tokens != 2*950 || got.Requests != 0 {
		t.Errorf("asked %d times, charged %+v", asked, got)
	}
}

// A grader is skipped if the request needs the budget, whatever the ladder: no call is made or
// charged.
func TestGradeNoRoom(t *testing.T) {
	for limit, want := range map[int64]error{1e6: nil, 3000: retrieval.ErrNotAsked} {
		l, m := ledger(t)
		of := graded(limit)
		of.BaseCost = budget.Amount{Requests: 1, Tokens: 2000}
		got, err := graders(m, judges(1)).Grader(of).Rerank(t.Context(), "q", []string{"a"})
		if !errors.Is(err, want) || (len(got) == 1) != (want == nil) {
			t.Errorf("limit of %d: %v, %v", limit, got, err)
		}
		if charged := kind(t, l, budget.Grade).Tokens; (charged > 0) != (want == nil) {
			t.Errorf("limit of %d: charged %d", limit, charged)
		}
	}
}

// An answer without a score for each document is not used, but charged.
func TestGradeLies(t *testing.T) {
	for name, a := range map[string]api{"too many": judges(2), "none": judges(0), "prose": answers("They are all fine."), "no completion": fails(services.ErrNoCompletion)} {
		l, m := ledger(t)
		got, err := graders(m, a).Grader(graded(1e6)).Rerank(t.Context(), "q", []string{"a"})
		if !errors.Is(err, retrieval.ErrBadScores) || got != nil || kind(t, l, budget.Grade).Tokens == 0 {
			t.Errorf("%s: %v, %v, charged %d", name, got, err, kind(t, l, budget.Grade).Tokens)
		}
	}
	unknown := graded(0)
	unknown.Grade.Upstream = "gone"
	if _, err := graders(nil, judges(1)).Grader(unknown).Rerank(t.Context(), "q", []string{"a"}); !errors.Is(err, retrieval.ErrNotAsked) {
		t.Errorf("an upstream that is not there: %v", err)
	}
}
