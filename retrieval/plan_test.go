package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
)

// A planner adapts a function to a Planner.
type planner func(context.Context, retrieval.Question) (retrieval.Plan, error)

func (p planner) Plan(ctx context.Context, q retrieval.Question) (retrieval.Plan, error) {
	return p(ctx, q)
}

// says returns a planner that answers with queries.
func says(queries ...string) planner {
	return func(context.Context, retrieval.Question) (retrieval.Plan, error) {
		return retrieval.Plan{Queries: queries}, nil
	}
}

// planned runs Prepare for a question, with a planning of three queries in four seconds.
func planned(by planner, text string, change func(*retrieval.Planning)) (asked *retrieval.Query, res retrieval.Result) {
	p := retrieval.Planning{Planner: by, PlanSettings: retrieval.PlanSettings{Model: "small", MaxQueries: 3, Turns: 2, Timeout: 4 * time.Second}}
	if change != nil {
		change(&p)
	}
	asked, res, _ = prepared(catalog{"a": "1"}, retrieval.Query{Text: text, Bases: refs("a"), Planning: &p}, retrieval.Result{Retrieved: 1})
	return asked, res
}

// Each failure of a planner has a reason, and then only the question is searched.
func TestPlanReasons(t *testing.T) {
	fails := func(err error) planner {
		return func(context.Context, retrieval.Question) (retrieval.Plan, error) {
			return retrieval.Plan{Queries: []string{"ignored"}, Skip: true}, err
		}
	}
	for want, by := range map[retrieval.PlanReason]planner{
		retrieval.PlanOK:       says("weeks of leave"),
		retrieval.PlanDisabled: fails(fmt.Errorf("no room: %w", retrieval.ErrNotAsked)),
		retrieval.PlanInvalid:  fails(fmt.Errorf("prose: %w", retrieval.ErrBadPlan)),
		retrieval.PlanError:    fails(errors.New("connection refused")),
		retrieval.PlanTimeout: func(ctx context.Context, _ retrieval.Question) (retrieval.Plan, error) {
			<-ctx.Done()
			return retrieval.Plan{}, ctx.Err()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked, res := planned(by, "how long", func(p *retrieval.Planning) { p.MaySkip = true })
			if asked == nil || asked.Planning != nil || res.Planned == nil {
				t.Fatalf("%s: asked %v, planned %v", want, asked, res.Planned)
			}
			wanted := retrieval.Planned{Queries: []string{"how long"}, Count: 1, Enabled: true, ModelID: "small", Fallback: want}
			if want == retrieval.PlanOK {
				wanted.Queries, wanted.Count, wanted.Applied = append(wanted.Queries, "weeks of leave"), 2, true
			}
			if want == retrieval.PlanTimeout {
				wanted.Took = 4 * time.Second
			}
			if diff := cmp.Diff(wanted, *res.Planned); diff != "" {
				t.Errorf("%s (-want +got):\n%s", want, diff)
			}
			if !slices.Equal(asked.Further, wanted.Queries[1:]) {
				t.Errorf("%s: searched %v", want, asked.Further)
			}
		})
	}
	asked, res := planned(func(context.Context, retrieval.Question) (retrieval.Plan, error) { panic("index out of range") }, "how long", nil)
	if asked == nil || res.Planned.Fallback != retrieval.PlanError {
		t.Errorf("panic: asked %v, %+v", asked, res.Planned)
	}
}

// Planned queries are searched if they differ, up to the policy's limit.
func TestPlanQueries(t *testing.T) {
	long := strings.Repeat("wörd ", 200)
	for name, c := range map[string]struct{ planned, want []string }{
		"more than allowed":  {[]string{"b c", "d e", "f g"}, []string{"b c", "d e"}},
		"twice":              {[]string{"B  c", "b C", "d"}, []string{"B c", "d"}},
		"the question again": {[]string{" HOW\tlong ", "ｈow long"}, nil},
		"empty":              {[]string{"", " \n", "x"}, []string{"x"}},
		"controls":           {[]string{"a\x00b\x1b[31m\u0085c"}, []string{"a b [31m c"}},
		"not UTF-8":          {[]string{"a\xffb"}, []string{"a b"}},
		"compatible forms":   {[]string{"ﬁnd"}, []string{"find"}},
	} {
		asked, res := planned(says(c.planned...), "how long", nil)
		if !slices.Equal(asked.Further, c.want) || res.Planned.Count != len(c.want)+1 || res.Planned.Applied != (len(c.want) > 0) {
			t.Errorf("%s: searched %q, %+v, want %q", name, asked.Further, res.Planned, c.want)
		}
	}
	asked, _ := planned(says(long), "how long", nil)
	if got := asked.Further[0]; len(got) > retrieval.MaxPlannedBytes || len(got) < retrieval.MaxPlannedBytes/2 || !utf8.ValidString(got) || !strings.HasSuffix(got, " wörd") {
		t.Errorf("a long query is searched as %q", got)
	}
}

// A planner may skip the search if the policy allows it.
func TestPlanSkip(t *testing.T) {
	skip := planner(func(context.Context, retrieval.Question) (retrieval.Plan, error) {
		return retrieval.Plan{Skip: true}, nil
	})
	asked, res := planned(skip, "how long", func(p *retrieval.Planning) { p.MaySkip = true })
	if asked != nil || res.Reason != retrieval.ReasonPlannerSkip || res.Reason.Failed() || res.Reason.Searched() || !res.Planned.Applied || res.Planned.Count != 0 {
		t.Errorf("asked %v, %+v, %+v", asked, res, res.Planned)
	}
	asked, res = planned(skip, "how long", nil)
	if asked == nil || res.Reason != "" || res.Planned.Applied || res.Planned.Count != 1 || res.Planned.Fallback != retrieval.PlanOK {
		t.Errorf("not allowed: asked %v, %+v, %+v", asked, res, res.Planned)
	}
}

// A planner gets the question and as many earlier turns as the policy says; it is not called if
// there is nothing to search for.
func TestPlanQuestion(t *testing.T) {
	var got *retrieval.Question
	by := planner(func(_ context.Context, q retrieval.Question) (retrieval.Plan, error) {
		got = &q
		return retrieval.Plan{}, nil
	})
	_, _ = planned(by, " how\nlong", func(p *retrieval.Planning) { p.Earlier, p.MaySkip = []string{"last  one", "before", "first"}, true })
	want := &retrieval.Question{Text: "how long", Earlier: []string{"last one", "before"}, MaxQueries: 3, MaySkip: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got = nil
	if _, res := planned(by, " ", nil); got != nil || res.Planned != nil {
		t.Errorf("without terms: asked %v, %v", got, res.Planned)
	}
}

// The queries of a plan are searched beside the question: each chunk is found once, the question
// weighs most, and each query's results are judged by its own floor.
func TestPipelineFusesQueries(t *testing.T) {
	found := map[string][]retrieval.Source{
		"question": {chunk("both.md", 0, 4, "found by both"), chunk("asked.md", 0, 6, "found by the question"), chunk("weak.md", 0, 1, "too weak"), chunk("better.md", 0, 1.9, "below the floor of the question")},
		"one":      {chunk("both.md", 0, 30, "found by both"), chunk("better.md", 0, 21, "below the floor of the question"), chunk("planned.md", 0, 60, "found by the plan"), chunk("weak.md", 0, 9, "too weak")},
		"two":      {chunk("two.md", 0, 300, "found by the second query")},
	}
	floors := map[string]float64{"question": 2, "one": 20, "two": 100}
	engine := func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		if len(q.Further) > 0 || q.Text != "question" && len(q.Previous) > 0 {
			return retrieval.Result{}, errors.New("more than one query")
		}
		list := slices.Clone(found[q.Text])
		for i := range list {
			list[i].Knowledge = q.Bases[0].Knowledge
		}
		return retrieval.Result{Sources: list, Bases: q.Bases, Floor: floors[q.Text]}, nil
	}
	q := asking("a")
	q.Previous = []retrieval.Turn{{Text: "before", Weight: 1}}
	q.Further = []string{"one", "two"}
	p := engines{"a": engine}.pipeline()
	p.Punctual = true
	res, err := p.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	want := "in  a/asked.md#0\nin  a/both.md#0\nin  a/planned.md#0\nin  a/two.md#0\nin  a/better.md#0\nout a/weak.md#0 score: score 1.0 < 2.0\n6 retrieved, 6 unique"
	if diff := cmp.Diff(want, outcome(res)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !slices.Equal(res.Bases, q.Bases) || res.Partial || res.Reason != "" {
		t.Errorf("%+v", res)
	}
	for i, s := range res.Sources[1:] {
		if before := res.Sources[i].Relevance; s.Relevance > before {
			t.Errorf("%s has relevance %v after %v", s.Doc, s.Relevance, before)
		}
	}
}

// A plan never makes an answer worse: if its query is late or fails, the question's results are
// returned without a reason, and not cached as complete; if the question fails, the plan's results
// are used.
func TestPipelineSearchesOfAPlanFail(t *testing.T) {
	good := has(1, chunk("a.md", 0, 5, "an answer"))
	for name, c := range map[string]struct {
		question, plan retrieval.Func
		reason         retrieval.Reason
	}{
		"late":             {good, sleeping, ""},
		"fails":            {good, failing(errors.New("down")), ""},
		"panics":           {good, panicking, ""},
		"question late":    {sleeping, good, retrieval.ReasonTimeout},
		"question refused": {failing(errors.New("down")), good, retrieval.ReasonError},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := asking("a")
			q.Further = []string{"more"}
			res, err := engines{"a": func(ctx context.Context, one retrieval.Query) (retrieval.Result, error) {
				if one.Text == "more" {
					return c.plan(ctx, one)
				}
				return c.question(ctx, one)
			}}.pipeline().Retrieve(t.Context(), q)
			if err != nil || len(res.Sources) != 1 || !res.Partial || res.Reason != c.reason {
				t.Errorf("%s: %+v, %v", name, res, err)
			}
		})
	}
}

// If a base changes between two searches of a plan, both generations are returned, so that the
// result is cached for neither.
func TestPipelineTellsGenerationsOfAPlan(t *testing.T) {
	q := asking("a")
	q.Further = []string{"more"}
	res, err := engines{"a": func(_ context.Context, one retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{Bases: []retrieval.Ref{{Knowledge: "a", Generation: one.Text}}}, nil
	}}.pipeline().Retrieve(t.Context(), q)
	want := []retrieval.Ref{{Knowledge: "a", Generation: "question"}, {Knowledge: "a", Generation: "more"}}
	if err != nil || !slices.Equal(res.Bases, want) {
		t.Errorf("%v, %v", res.Bases, err)
	}
}
