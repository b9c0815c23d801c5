package rewrite_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
)

// rewritten rewrites a conversation under a policy with found as search result, and returns the
// query that was searched.
func rewritten(t *testing.T, body string, found retrieval.Result, o rewrite.Options, change func(*rewrite.Policy)) (res rewrite.Result, asked retrieval.Query) {
	t.Helper()
	p := testPolicy(t, nil)
	change(&p)
	req, err := chat.Completions.Parse([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	rw := &rewrite.Rewriter{Models: models{model.Model{Counter: words{}}}, Retriever: retrieval.Func(
		func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
			asked = q
			return found, nil
		})}
	return rw.Rewritten(t.Context(), p, req, o), asked
}

func planning(p *rewrite.Policy) {
	p.Planner = retrieval.PlanSettings{MaxQueries: 3, Turns: 2, Timeout: time.Second}
}

const chatOfFour = `{"model":"large","messages":[{"role":"user","content":"first"},{"role":"assistant","content":"a"},
	{"role":"user","content":"second"},{"role":"user","content":"third"},{"role":"user","content":"How long is parental leave in Norway?"}]}`

// The planner uses the request's model unless the policy names one; it sees the user's earlier
// messages and nothing else. If an answer must rest on sources it may not skip the search.
func TestPlanning(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*rewrite.Policy)
		options rewrite.Options
		model   string
		earlier []string
		skips   bool
	}{
		"auto":           {func(*rewrite.Policy) {}, rewrite.Options{}, "large", []string{"third", "second"}, true},
		"named":          {func(p *rewrite.Policy) { p.Planner.Model = "small" }, rewrite.Options{}, "small", []string{"third", "second"}, true},
		"no turns":       {func(p *rewrite.Policy) { p.Planner.Turns = 0 }, rewrite.Options{}, "large", nil, true},
		"query replaced": {func(*rewrite.Policy) {}, rewrite.Options{Query: "x"}, "large", nil, true},
		"strict":         {func(p *rewrite.Policy) { p.Grounding = rewrite.GroundingStrict }, rewrite.Options{}, "large", []string{"third", "second"}, false},
		"refuse":         {func(p *rewrite.Policy) { p.OnEmpty = rewrite.EmptyRefuse }, rewrite.Options{}, "large", []string{"third", "second"}, false},
	} {
		_, asked := rewritten(t, chatOfFour, retrieval.Result{}, c.options, func(p *rewrite.Policy) { planning(p); c.change(p) })
		if p := asked.Planning; p == nil || p.Model != c.model || !slices.Equal(p.Earlier, c.earlier) || p.MaySkip != c.skips {
			t.Errorf("%s: %+v", name, p)
		}
		if asked.Previous != nil {
			t.Errorf("%s: a question that stands alone is joined by %v", name, asked.Previous)
		}
	}
	res, asked := rewritten(t, chatOfFour, retrieval.Result{}, rewrite.Options{}, func(*rewrite.Policy) {})
	if asked.Planning != nil || res.Ledger.Planned != nil {
		t.Errorf("nothing is planned: %+v, %+v", asked.Planning, res.Ledger.Planned)
	}
}

// The ledger reports the result of planning, by field name, and nothing if the policy does not
// plan.
func TestPlanningInLedger(t *testing.T) {
	planned := &retrieval.Planned{Queries: []string{"q", "weeks of leave"}, Count: 2, Enabled: true, Applied: true, ModelID: "small", Fallback: retrieval.PlanOK}
	names := func(found retrieval.Result, change func(*rewrite.Policy)) string {
		res, _ := rewritten(t, chatOfFour, found, rewrite.Options{}, change)
		text, err := json.Marshal(res.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), `,"retrieval_quer`)
		return after
	}
	want := `ies":["q","weeks of leave"],"retrieval_query_count":2,"retrieval_query_planner_enabled":true,"retrieval_query_planner_applied":true,` +
		`"retrieval_query_planner_model_id":"small","retrieval_query_planner_fallback":"ok"}`
	if got := names(retrieval.Result{Planned: planned}, planning); got != want {
		t.Errorf("got %s", got)
	}
	want = `y_count":0,"retrieval_query_planner_enabled":true,"retrieval_query_planner_applied":false,` +
		`"retrieval_query_planner_model_id":"large","retrieval_query_planner_fallback":"disabled"}`
	if got := names(retrieval.Result{}, func(p *rewrite.Policy) { planning(p); p.Knowledge = nil }); got != want {
		t.Errorf("without knowledge: %s", got)
	}
	// Searches without a plan count, too, as when a policy plans only a second search.
	const none = `y_count":0`
	once := `ies":["How long is parental leave in Norway?"],"retrieval_query_count":1` + want[len(none):]
	for name, found := range map[string]retrieval.Result{
		"found":               {Sources: []retrieval.Source{{Knowledge: "handbook", Text: "x"}}},
		"nothing found":       {Reason: retrieval.ReasonNoMatch},
		"all is irrelevant":   {Reason: retrieval.ReasonIrrelevant},
		"late":                {Reason: retrieval.ReasonTimeout, Partial: true},
		"failed":              {Reason: retrieval.ReasonError, Partial: true},
		"others are indexing": {Reason: retrieval.ReasonIndexing, Partial: true, Took: 1},
	} {
		if got := names(found, planning); !strings.HasPrefix(got, strings.TrimSuffix(once, "}")) { // other fields of the ledger follow
			t.Errorf("%s: %s, want %s", name, got, once)
		}
	}
	for _, reason := range []retrieval.Reason{retrieval.ReasonNoQueryTerms, retrieval.ReasonNoKnowledge, retrieval.ReasonPlannerSkip, retrieval.ReasonIndexing} {
		if got := names(retrieval.Result{Reason: reason}, planning); !strings.HasPrefix(got, none) {
			t.Errorf("not searched, %s: %s", reason, got)
		}
	}
	if got := names(retrieval.Result{}, func(*rewrite.Policy) {}); got != "" {
		t.Errorf("without a planner: %s", got)
	}
}

// If the planner decides that no search is needed, the request is unchanged, with a reason of its
// own: it is not an empty result, and nothing is refused.
func TestPlannerSkip(t *testing.T) {
	res, _ := rewritten(t, chatOfFour, retrieval.Result{Reason: retrieval.ReasonPlannerSkip}, rewrite.Options{}, func(p *rewrite.Policy) {
		planning(p)
		p.OnEmpty, p.RefuseOnFailure, p.RefuseOnPartial = rewrite.EmptyNotice, true, true
	})
	if res.Outcome != rewrite.Untouched || res.Reason != rewrite.ReasonPlannerSkip || len(res.Edits) > 0 {
		t.Errorf("%s %s, %v", res.Outcome, res.Reason, res.Edits)
	}
}
