package eval_test

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
	"github.com/google/go-cmp/cmp/cmpopts"

	"sidenote/retrieval"
	"sidenote/retrieval/eval"
)

func tiny(t *testing.T) *eval.Collection {
	t.Helper()
	c, err := eval.Read(t.Context(), "testdata/tiny", "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answers is an engine with fixed answers by question: "doc#chunk", with decreasing scores.
func answers(byText map[string]string, took time.Duration) retrieval.Func {
	return func(_ context.Context, q retrieval.Query) (res retrieval.Result, err error) {
		<-time.After(took)
		for i, place := range strings.Fields(byText[q.Text]) {
			doc, chunk, _ := strings.Cut(place, "#")
			n := 0
			_, _ = fmt.Sscan(chunk, &n)
			res.Sources = append(res.Sources, retrieval.Source{Doc: doc, Chunk: n, Score: float64(100 - i)})
		}
		return res, nil
	}
}

const (
	leave   = "How much leave do I get?"
	dog     = "May I bring my dog?"
	fridays = "Who may come on Fridays?"
)

// Every measure for the tiny collection, computed by hand.
func TestMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trial := eval.Trial{
			Engine: answers(map[string]string{
				leave:   "c#0 b#1 b#0 a#0",
				dog:     "e#0 d#0",
				fridays: "f1#0 f2#0 f3#0 f4#0 f5#0 f6#0 f7#0 f8#0 f9#0 f10#0 d#0",
			}, 0),
			Request: answers(map[string]string{leave: "c#0 b#1 b#0", dog: "e#0"}, 3*time.Millisecond),
		}
		got, err := trial.Run(t.Context(), tiny(t))
		if err != nil {
			t.Fatal(err)
		}
		const took = 3 * time.Millisecond
		log3 := math.Log2(3)
		want := []eval.Outcome{
			{
				Query: eval.Query{ID: "q1", Text: leave}, Ranking: []string{"c", "b", "a"}, Sources: []string{"c", "b"}, Hit: true, Held: true, Took: took,
				// Grades are a 2, b 1, c 0. Found: 0/log2(2) + 1/log2(3) + 2/log2(4);
				// best: a before b, 2/log2(2) + 1/log2(3).
				Measures: eval.Measures{NDCG: (1/log3 + 1) / (2 + 1/log3), RecallNear: 1, RecallFar: 1, ReciprocalRank: 1. / 2}, // .6199
			},
			{
				Query: eval.Query{ID: "q2", Text: dog}, Ranking: []string{"e", "d"}, Sources: []string{"e"}, Took: took,
				// d and a document that is not in the corpus are relevant: 1/log2(3) of 1/log2(2)
				// + 1/log2(3), and one of two.
				Measures: eval.Measures{NDCG: 1 / log3 / (1 + 1/log3), RecallNear: .5, RecallFar: .5, ReciprocalRank: 1. / 2}, // .3869
			},
			{
				Query:   eval.Query{ID: "q5", Text: fridays},
				Ranking: strings.Fields("f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 d"), Took: took,
				// The only relevant document is the eleventh: beyond the measures at ten.
				Measures: eval.Measures{RecallFar: 1},
			},
		}
		near := cmpopts.EquateApprox(0, 1e-12)
		if diff := cmp.Diff(want, got, near, cmpopts.IgnoreFields(eval.Outcome{}, "Scores")); diff != "" {
			t.Error(diff)
		}
		means := eval.Summary{
			Queries:  3,
			Measures: eval.Measures{NDCG: (.6199062 + .3868528 + 0) / 3, RecallNear: (1 + .5 + 0) / 3, RecallFar: (1 + .5 + 1) / 3, ReciprocalRank: (.5 + .5 + 0) / 3},
			Hit:      1. / 3, Empty: 1, P50: took, P95: took, P99: took,
		}
		if diff := cmp.Diff(means, eval.Summarise(got), cmpopts.EquateApprox(0, 1e-7), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		var order []string
		for _, o := range eval.Worst(got, 2) {
			order = append(order, o.Query.ID)
		}
		if !slices.Equal(order, []string{"q5", "q2"}) || len(eval.Worst(got, 9)) != 3 {
			t.Errorf("worst are %v", order)
		}
	})
}

// First depends on the first source only.
func TestFirstSource(t *testing.T) {
	c := tiny(t)
	for answer, right := range map[string]bool{"a#0 c#0": true, "c#0 a#0": false, "": false} {
		all := answers(map[string]string{leave: answer}, 0)
		got, err := eval.Trial{Engine: all, Request: all}.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		share := 0.
		if right {
			share = 1. / 3
		}
		if s := eval.Summarise(got); got[0].First != right || s.First != share {
			t.Errorf("%q: %v, share %v", answer, got[0].First, s.First)
		}
	}
}

// Percentiles use the nearest rank.
func TestPercentiles(t *testing.T) {
	var outcomes []eval.Outcome
	for i := range 200 {
		outcomes = append(outcomes, eval.Outcome{Took: time.Duration(200 - i)})
	}
	if s := eval.Summarise(outcomes); s.P50 != 100 || s.P95 != 190 || s.P99 != 198 {
		t.Errorf("of 1 to 200: p50 %d, p95 %d, p99 %d", s.P50, s.P95, s.P99)
	}
	if s := eval.Summarise(outcomes[:1]); s.P50 != 200 || s.P99 != 200 {
		t.Errorf("of one: p50 %d, p99 %d", s.P50, s.P99)
	}
	if diff := cmp.Diff(eval.Summary{}, eval.Summarise(nil)); diff != "" {
		t.Error(diff)
	}
}

// A document with a thousand chunks does not keep others out of the first hundred.
func TestRankingGoesDeepEnough(t *testing.T) {
	var asked []int
	engine := retrieval.Func(func(_ context.Context, q retrieval.Query) (res retrieval.Result, err error) {
		asked = append(asked, q.Settings.NumCandidates)
		for i := range min(q.Settings.NumCandidates, 1150) {
			s := retrieval.Source{Doc: "long", Chunk: i, Score: float64(2000 - i)}
			if i >= 1000 {
				s.Doc = fmt.Sprintf("d%03d", i-1000)
			}
			res.Sources = append(res.Sources, s)
		}
		return res, nil
	})
	outcomes, err := eval.Trial{Engine: engine, Request: answers(nil, 0)}.Run(t.Context(), tiny(t))
	if err != nil {
		t.Fatal(err)
	}
	r := outcomes[0].Ranking
	if len(r) != 100 || r[0] != "long" || r[99] != "d098" || !slices.Equal(asked[:3], []int{200, 800, 3200}) {
		t.Errorf("asked for %v; %d documents, %s to %s", asked[:3], len(r), r[0], r[len(r)-1])
	}
}

// A stopped run returns its outcomes so far; a failed one names the query.
func TestRunEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	none := answers(nil, 0)
	got, err := eval.Trial{Engine: none, Request: none, Progress: func(int) { stop() }}.Run(ctx, tiny(t))
	if err != nil || len(got) != 1 {
		t.Errorf("stopped: %d outcomes, %v", len(got), err)
	}
	broken := retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
		return retrieval.Result{}, errors.New("broken")
	})
	for _, trial := range []eval.Trial{{Engine: broken, Request: none}, {Engine: none, Request: broken}} {
		if _, err := trial.Run(t.Context(), tiny(t)); err == nil || err.Error() != "query q1: broken" {
			t.Errorf("error %v", err)
		}
	}
}

// Engine and Request, but no stage, are reranked, with a new Reranking for each question, without
// its threshold in runs without a threshold. Planned stages share the plan. The outcome reports a
// missing reranking.
func TestRerankingAndPlannedStages(t *testing.T) {
	asked := 0
	knows := answers(map[string]string{leave: "a#0 b#0", dog: "d#0"}, 0)
	with := func(failed retrieval.RerankReason) retrieval.Func {
		return func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
			if by := q.Reranking; by == nil || by.Documents != asked || (by.Threshold == 0) != (q.Settings.ScoreThreshold == 0) {
				return retrieval.Result{}, fmt.Errorf("reranking %+v of %d, settings %+v", by, asked, q.Settings)
			}
			res, err := knows(ctx, q)
			if res.Reranked = (&retrieval.Reranked{Documents: 2, Reason: retrieval.RerankOK}); q.Text == dog {
				res.Reranked.Reason = failed
			}
			return res, err
		}
	}
	stage := func(planned bool) retrieval.Func {
		return func(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
			if q.Reranking != nil || (q.Planning != nil) != planned {
				return retrieval.Result{}, fmt.Errorf("reranking %v, planning %v", q.Reranking, q.Planning)
			}
			return knows(ctx, q)
		}
	}
	trial := eval.Trial{
		Query:    retrieval.Query{Settings: retrieval.Settings{ScoreThreshold: retrieval.AutoThreshold}},
		Stages:   []eval.Stage{{Name: "bare", Engine: stage(false)}, {Name: "planned", Engine: stage(true), Planned: true}},
		Planning: func([]string) *retrieval.Planning { return new(retrieval.Planning) },
		Reranking: func() *retrieval.Reranking {
			asked++
			return &retrieval.Reranking{RerankSettings: retrieval.RerankSettings{Documents: asked, Threshold: .5}}
		},
	}
	for _, c := range []struct{ request, ranking, want retrieval.RerankReason }{
		{retrieval.RerankOK, retrieval.RerankOK, ""},
		{retrieval.RerankTimeout, retrieval.RerankOK, retrieval.RerankTimeout},
		{retrieval.RerankOK, retrieval.RerankInvalid, retrieval.RerankInvalid},
	} {
		trial.Request, trial.Engine = with(c.request), with(c.ranking)
		got, err := trial.Run(t.Context(), tiny(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 3 || got[0].Unranked != "" || got[1].Unranked != c.want || got[2].Unranked != "" {
			t.Errorf("%+v: outcomes %+v", c, got)
		}
	}
	if asked != 9 {
		t.Errorf("%d rerankers for nine questions", asked)
	}
	if results, err := trial.OffTopic(t.Context(), []eval.Message{{Text: leave}}); err != nil || len(results) != 1 || asked != 10 {
		t.Errorf("off topic: %+v, %v, %d rerankers", results, err, asked)
	}
}
