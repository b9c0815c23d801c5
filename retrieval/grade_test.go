package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
)

func grading(by retrieval.Reranker) *retrieval.Grading {
	return &retrieval.Grading{Grader: by, GradeSettings: retrieval.GradeSettings{
		By: retrieval.GradeByModel, Upstream: "grader", Model: "m", Relevant: .7, Irrelevant: .3, Timeout: time.Second,
	}}
}

// grades formats sources with their grades and scores.
func grades(res retrieval.Result) (text string) {
	for _, s := range res.Sources {
		text += fmt.Sprintf(" %s", s.Grade)
		if s.GradeScore != nil {
			text += fmt.Sprintf("=%g", *s.GradeScore)
		}
	}
	return text
}

// A keptScorer is a scorer whose scores come from a cache.
type keptScorer struct{ scorer }

func (keptScorer) FromCache() bool { return true }

// Kept is reported separately for plans, rerank scores and grades.
func TestWhatWasKeptIsTold(t *testing.T) {
	p := engines{"a": has(2, chunk("a.md", 0, 9, "alpha"), chunk("b.md", 0, 5, "beta"))}.pipeline()
	fresh, known := gives(map[string]float64{"alpha": .9}), keptScorer{gives(map[string]float64{"alpha": .9})}
	for _, c := range []struct {
		reranker, grader retrieval.Reranker
		reranked, graded bool
	}{{fresh, fresh, false, false}, {known, fresh, true, false}, {fresh, known, false, true}} {
		q := asking("a")
		q.Reranking, q.Grading = reranking(c.reranker), grading(c.grader)
		res, err := p.Retrieve(t.Context(), q)
		if err != nil || res.Reranked.Cached != c.reranked || res.Graded.Cached != c.graded {
			t.Errorf("%+v, %+v, %v", res.Reranked, res.Graded, err)
		}
	}
	failed := keptScorer{func(context.Context, string, []string) ([]float64, error) { return nil, retrieval.ErrBadScores }}
	q := asking("a")
	q.Reranking, q.Grading = reranking(failed), grading(failed)
	if res, err := p.Retrieve(t.Context(), q); err != nil || res.Reranked.Cached || res.Graded.Cached {
		t.Errorf("%+v, %+v, %v", res.Reranked, res.Graded, err)
	}
	for _, kept := range []bool{false, true} {
		_, res := planned(func(context.Context, retrieval.Question) (retrieval.Plan, error) {
			return retrieval.Plan{Queries: []string{"more"}, Cached: kept}, nil
		}, "words", nil)
		if res.Planned.Cached != kept {
			t.Errorf("a plan: %+v", res.Planned)
		}
	}
}

// With one relevant source irrelevant ones are excluded; if all are irrelevant, there are no
// sources; ambiguous results stay unchanged. Only selected sources are graded.
func TestGradeVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		alpha, beta, gamma float64
		want               string
		grades             string
		verdict            retrieval.Grade
		reason             retrieval.Reason
	}{
		"one is relevant": {
			.29, .7, .3, "in  a/b.md#0\nin  a/c.md#0\nout a/a.md#0 grade: irrelevant: 0.29 < 0.3\nout a/d.md#0 top_k: after the best 3\n4 retrieved, 4 unique",
			" relevant=0.7 ambiguous=0.3", retrieval.GradeRelevant, "",
		},
		"none is": {
			.1, .2, .0, "out a/a.md#0 grade: irrelevant: 0.1 < 0.3\nout a/b.md#0 grade: irrelevant: 0.2 < 0.3\nout a/c.md#0 grade: irrelevant: 0 < 0.3\nout a/d.md#0 top_k: after the best 3\n4 retrieved, 4 unique",
			"", retrieval.GradeIrrelevant, retrieval.ReasonIrrelevant,
		},
		"nobody knows": {
			.1, .69, .0, "in  a/a.md#0\nin  a/b.md#0\nin  a/c.md#0\nout a/d.md#0 top_k: after the best 3\n4 retrieved, 4 unique",
			" irrelevant=0.1 ambiguous=0.69 irrelevant=0", retrieval.GradeAmbiguous, "",
		},
	} {
		p := engines{"a": has(2, chunk("a.md", 0, 9, "alpha"), chunk("b.md", 0, 5, "beta"), chunk("c.md", 0, 4, "gamma"), chunk("d.md", 0, 3, "delta"))}.pipeline()
		q := asking("a")
		q.Settings.TopK = 3
		q.Grading = grading(gives(map[string]float64{"alpha": c.alpha, "beta": c.beta, "gamma": c.gamma, "delta": 1}))
		res, err := p.Retrieve(t.Context(), q)
		if diff := cmp.Diff(c.want, outcome(res)); err != nil || diff != "" || grades(res) != c.grades || res.Reason != c.reason {
			t.Errorf("%s: %v, reason %q, grades%s, -want +got:\n%s", name, err, res.Reason, grades(res), diff)
		}
		want := &retrieval.Graded{By: "llm", Upstream: "grader", Model: "m", Documents: 3, Reason: retrieval.RerankOK, Verdict: c.verdict, Took: res.Graded.Took}
		if diff := cmp.Diff(want, res.Graded); diff != "" || res.Degraded != "" || res.Graded.Failed() != "" {
			t.Errorf("%s: degraded %q, -want +got:\n%s", name, res.Degraded, diff)
		}
		if !res.Reason.Searched() || res.Reason.Failed() {
			t.Errorf("%s: %q is no whole search", name, res.Reason)
		}
		if p.Punctual = true; retrieval.AnswersAtOnce(p, q) {
			t.Errorf("%s: what waits for a model is answered at once", name)
		}
	}
}

// With a perfect Grader exactly the relevant sources stay, in order.
func TestGradeByAnOracle(t *testing.T) {
	var list []retrieval.Source
	relevant := map[string]float64{}
	for i := range 20 {
		text := fmt.Sprintf("text%02d of its own, word%d", i, i)
		if list = append(list, chunk(fmt.Sprintf("d%02d.md", i), 0, 60-float64(i), text)); i%3 == 1 {
			relevant[text[:6]] = 1
		}
	}
	q := asking("a")
	q.Settings.TopK, q.Grading = len(list), grading(gives(relevant))
	res, err := engines{"a": has(2, list...)}.pipeline().Retrieve(t.Context(), q)
	docs := ""
	for _, s := range res.Sources {
		docs += " " + s.Doc[:3]
	}
	if err != nil || docs != " d01 d04 d07 d10 d13 d16 d19" || res.Excluded.Len() != len(list)-len(relevant) {
		t.Errorf("%v, in are%s, %d fell", err, docs, res.Excluded.Len())
	}
}

// If a Grader fails, all sources stay, and the answer reports the failure and is not cacheable.
func TestGradeFails(t *testing.T) {
	p := engines{
		"a": has(2, chunk("a.md", 0, 9, "first words"), chunk("b.md", 0, 5, "second text"), chunk("c.md", 0, 1, "too weak")),
		"b": has(0, chunk("d.md", 0, 0.7, "third line")),
	}.pipeline()
	for name, c := range map[string]struct {
		by   retrieval.Reranker
		want retrieval.RerankReason
	}{
		"nobody":       {nil, retrieval.RerankDisabled},
		"no room":      {scoring(nil, fmt.Errorf("no room: %w", retrieval.ErrNotAsked)), retrieval.RerankDisabled},
		"down":         {scoring(nil, errors.New("connection refused")), retrieval.RerankError},
		"panics":       {scorer(func(context.Context, string, []string) ([]float64, error) { panic("index out of range") }), retrieval.RerankError},
		"bad":          {scoring(nil, fmt.Errorf("index 7: %w", retrieval.ErrBadScores)), retrieval.RerankInvalid},
		"too few":      {scoring([]float64{0, 0}, nil), retrieval.RerankInvalid},
		"not a number": {scoring([]float64{0, math.NaN(), 0}, nil), retrieval.RerankInvalid},
		"hangs": {scorer(func(ctx context.Context, _ string, _ []string) ([]float64, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), retrieval.RerankTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := asking("a", "b")
			plain, err := p.Retrieve(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			q.Grading = grading(c.by)
			start := time.Now()
			res, err := p.Retrieve(t.Context(), q)
			if took := time.Since(start); err != nil || took > time.Second {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			if diff := cmp.Diff(outcome(plain), outcome(res)); diff != "" || strings.TrimSpace(grades(res)) != "" {
				t.Errorf("%s: grades%s, -want +got:\n%s", name, grades(res), diff)
			}
			if res.Degraded != retrieval.StageGrade || res.Graded.Failed() != c.want || res.Graded.Documents != 3 || res.Graded.Verdict != "" || res.Partial || res.Reason != "" {
				t.Errorf("%s: degraded %q, %+v", name, res.Degraded, res.Graded)
			}
		})
	}
}

// The timeout of a Grader does not include the time of the Reranker.
func TestGradeTimeoutIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := scorer(func(_ context.Context, _ string, documents []string) ([]float64, error) {
			<-time.After(900 * time.Millisecond) // fake time, in a synctest bubble
			return make([]float64, len(documents)), nil
		})
		q := asking("a")
		q.Reranking, q.Grading = reranking(late), grading(late)
		res, err := engines{"a": has(2, chunk("a.md", 0, 9, "alpha"), chunk("b.md", 0, 5, "beta"))}.pipeline().Retrieve(t.Context(), q)
		if err != nil || res.Reranked.Reason != retrieval.RerankOK || res.Graded.Verdict != retrieval.GradeIrrelevant {
			t.Errorf("%v, %+v, %+v", err, res.Reranked, res.Graded)
		}
	})
}

// Rerank scores grade without another call. The Reranker is called even for a single source;
// unscored sources are ambiguous; if it fails, nothing is graded and only reranking is reported as
// failed.
func TestGradeByRerank(t *testing.T) {
	by := func(by retrieval.Reranker, documents int, sources ...retrieval.Source) retrieval.Result {
		q := asking("a")
		q.Reranking, q.Grading = reranking(by), grading(scoring(nil, errors.New("asked")))
		q.Reranking.Documents, q.Grading.By = documents, retrieval.GradeByRerank
		res, err := engines{"a": has(2, sources...)}.pipeline().Retrieve(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	a, b, c := chunk("a.md", 0, 9, "alpha"), chunk("b.md", 0, 5, "beta"), chunk("c.md", 0, 4, "gamma")
	scores := gives(map[string]float64{"alpha": .1, "beta": .9, "gamma": .2})
	res := by(scores, 50, a, b, c)
	if grades(res) != " relevant" || res.Sources[0].Doc != "b.md" || res.Excluded.Len() != 2 || res.Graded.Documents != 0 || res.Graded.Verdict != retrieval.GradeRelevant || res.Degraded != "" {
		t.Errorf("%s, %+v", outcome(res), res.Graded)
	}
	if res = by(scores, 50, a); res.Reason != retrieval.ReasonIrrelevant || res.Reranked.Documents != 1 {
		t.Errorf("one source: %s, %+v", outcome(res), res.Reranked)
	}
	if res = by(scores, 1, a, b); grades(res) != " irrelevant ambiguous" || res.Graded.Verdict != retrieval.GradeAmbiguous {
		t.Errorf("not scored: %s, %s", outcome(res), grades(res))
	}
	res = by(scoring([]float64{0}, nil), 50, a, b)
	if len(res.Sources) != 2 || res.Graded.Reason != retrieval.RerankInvalid || res.Graded.Failed() != "" || res.Degraded != retrieval.StageRerank {
		t.Errorf("no scores: %s, %+v", outcome(res), res.Graded)
	}
}

// Without sources the Grader is not called, and bases get queries without Grading.
func TestGradeIsNotOfBases(t *testing.T) {
	q := asking("a")
	q.Grading = grading(scorer(func(context.Context, string, []string) ([]float64, error) {
		t.Error("asked about nothing")
		return nil, nil
	}))
	res, err := engines{"a": func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		if q.Grading != nil {
			t.Error("a base is asked to grade")
		}
		return retrieval.Result{Bases: slices.Clone(q.Bases)}, nil
	}}.pipeline().Retrieve(t.Context(), q)
	if err != nil || res.Reason != retrieval.ReasonNoMatch || res.Graded.Reason != retrieval.RerankDisabled || res.Degraded != "" {
		t.Errorf("%v, %q, %+v", err, res.Reason, res.Graded)
	}
}

// replanned searches a base with a word engine, and a planner that runs if the sources are
// ambiguous.
func replanned(t *testing.T, by planner, grader retrieval.Reranker, change func(*retrieval.Query)) (res retrieval.Result, rounds int) {
	t.Helper()
	texts := []retrieval.Source{chunk("a.md", 0, 9, "question asked"), chunk("b.md", 0, 8, "weeks of leave")}
	base := retrieval.Func(func(_ context.Context, q retrieval.Query) (retrieval.Result, error) {
		res := retrieval.Result{Bases: q.Bases}
		for _, s := range texts {
			if s.Knowledge = "a"; strings.Contains(s.Text, q.Text) {
				res.Sources = append(res.Sources, s)
			}
		}
		return res, nil
	})
	pipeline := engines{"a": base}.pipeline()
	p := &retrieval.Prepare{Ref: catalog{"a": "1"}.Ref, HasTerms: hasWords, Join: joinShort, Next: retrieval.Func(func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
		rounds++
		return pipeline.Retrieve(ctx, q)
	})}
	q := retrieval.Query{Text: "question", Bases: refs("a"), Grading: grading(grader)}
	q.Planning = &retrieval.Planning{Planner: by, PlanSettings: retrieval.PlanSettings{Model: "small", MaxQueries: 3, Timeout: time.Second, Replan: true}}
	if change != nil {
		change(&q)
	}
	res, err := p.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return res, rounds
}

// An ambiguous search is repeated once with the queries of a plan, and the new result is graded.
// With any other verdict the planner does not run.
func TestGradeReplans(t *testing.T) {
	for name, c := range map[string]struct {
		question, leave float64
		rounds          int
		verdict         retrieval.Grade
		docs            string
	}{
		"finds what the first did not": {.5, .9, 2, retrieval.GradeRelevant, " a.md b.md"},
		"finds nothing relevant":       {.5, .1, 2, retrieval.GradeAmbiguous, " a.md b.md"},
		"is not needed":                {.9, .9, 1, retrieval.GradeRelevant, " a.md"},
		"is no use":                    {.1, .9, 1, retrieval.GradeIrrelevant, ""},
	} {
		asked := 0
		plans := planner(func(ctx context.Context, q retrieval.Question) (retrieval.Plan, error) {
			asked++
			return says("weeks of leave")(ctx, q)
		})
		res, rounds := replanned(t, plans, gives(map[string]float64{"question": c.question, "leave": c.leave}), nil)
		docs := ""
		for _, s := range res.Sources {
			docs += " " + s.Doc
		}
		if rounds != c.rounds || asked != c.rounds-1 || docs != c.docs || res.Graded.Verdict != c.verdict || res.Graded.Rounds != 2*(c.rounds-1) || (res.Planned != nil) != (asked > 0) || res.Degraded != "" {
			t.Errorf("a second round that %s: %d rounds, %d plans, sources%s, %+v, %+v", name, rounds, asked, docs, res.Graded, res.Planned)
		}
	}
}

// If the second round fails, the result of the first one is returned, with the failure.
func TestReplanFails(t *testing.T) {
	half := gives(map[string]float64{"question": .5})
	second := func(fails func(ctx context.Context) error) scorer {
		asked := 0
		return func(ctx context.Context, query string, documents []string) ([]float64, error) {
			if asked++; asked > 1 {
				return nil, fails(ctx)
			}
			return half(ctx, query, documents)
		}
	}
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		plans    planner
		grader   retrieval.Reranker
		change   func(*retrieval.Query)
		rounds   int
		planned  retrieval.PlanReason
		reason   retrieval.RerankReason
		degraded retrieval.Stage
	}{
		"no plan": {func(ctx context.Context, _ retrieval.Question) (retrieval.Plan, error) {
			return retrieval.Plan{}, hangs(ctx)
		}, half, nil, 1, retrieval.PlanTimeout, retrieval.RerankOK, ""},
		"no query": {says("question"), half, nil, 1, retrieval.PlanOK, retrieval.RerankOK, ""},
		"skips": {func(context.Context, retrieval.Question) (retrieval.Plan, error) {
			return retrieval.Plan{Skip: true}, nil
		}, half, nil, 1, retrieval.PlanOK, retrieval.RerankOK, ""},
		"graded late": {says("weeks"), second(hangs), nil, 2, retrieval.PlanOK, retrieval.RerankTimeout, retrieval.StageGrade},
		"graded ill":  {says("weeks"), second(func(context.Context) error { return retrieval.ErrBadScores }), nil, 2, retrieval.PlanOK, retrieval.RerankInvalid, retrieval.StageGrade},
		"not reranked": {says("weeks"), nil, func(q *retrieval.Query) {
			q.Reranking, q.Grading.By = reranking(second(func(context.Context) error { return errors.New("down") })), retrieval.GradeByRerank
		}, 2, retrieval.PlanOK, retrieval.RerankError, retrieval.StageRerank},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			res, rounds := replanned(t, c.plans, c.grader, c.change)
			if rounds != c.rounds || len(res.Sources) != 1 || res.Sources[0].Doc != "a.md" || res.Graded.Verdict != retrieval.GradeAmbiguous || time.Since(start) > time.Second {
				t.Errorf("%s: %d rounds, %s, %+v after %v", name, rounds, outcome(res), res.Graded, time.Since(start))
			}
			if res.Planned.Fallback != c.planned || res.Graded.Reason != c.reason || res.Degraded != c.degraded {
				t.Errorf("%s: %+v, %+v, degraded %q", name, res.Planned, res.Graded, res.Degraded)
			}
		})
	}
}

// A cached answer has the same verdict.
func TestGradesOfKeptAnswers(t *testing.T) {
	kept := func(grades ...retrieval.Grade) retrieval.Result {
		res := retrieval.Result{Cache: retrieval.CacheHit}
		for _, g := range grades {
			res.Sources = append(res.Sources, retrieval.Source{Grade: g})
		}
		return res
	}
	fell := retrieval.Result{Cache: retrieval.CacheHit, Excluded: retrieval.NewExcludedList([]retrieval.Excluded{{Reason: retrieval.ExcludedGrade}})}
	for want, res := range map[retrieval.Grade]retrieval.Result{
		retrieval.GradeRelevant:   kept(retrieval.GradeAmbiguous, retrieval.GradeRelevant),
		retrieval.GradeAmbiguous:  kept(retrieval.GradeIrrelevant, retrieval.GradeAmbiguous),
		retrieval.GradeIrrelevant: fell,
		retrieval.GradeNone:       kept(),
	} {
		_, got, _ := prepared(catalog{"a": "1"}, retrieval.Query{Text: "how long", Bases: refs("a"), Grading: grading(nil)}, res)
		reason := retrieval.RerankOK
		if want == retrieval.GradeNone {
			reason = retrieval.RerankDisabled
		}
		if got.Graded == nil || got.Graded.Verdict != want || got.Graded.Reason != reason || got.Graded.Documents != 0 {
			t.Errorf("%q: %+v", want, got.Graded)
		}
	}
}
