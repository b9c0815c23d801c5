// Package eval measures how well sources are found: it reads a collection of documents
// and queries with known answers, asks the queries, and computes the measures of the
// literature, so that results can be compared with published ones.
//
// It knows no engine and prints nothing.
package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sidenote/retrieval"
)

// Depths at which rankings are measured.
const (
	near = 10  // what people look at and what fits into prompts
	far  = 100 // what a reranker may choose from
)

// firstCandidates is how many chunks are asked for at first.
const firstCandidates = 200

// A Trial asks the queries of a collection.
type Trial struct {
	// Engine ranks documents: it is asked for as many chunks as it takes to get a hundred
	// documents.
	Engine retrieval.Retriever
	// Request is the retriever of requests. It is asked with Query and the text of each
	// query, and its time is measured, so it should have no cache.
	Request retrieval.Retriever
	Query   retrieval.Query
	// Stages rank alone what goes into the ranking of Engine.
	Stages []Stage
	// Planning, if not nil, returns what asks for further queries beside one, for Engine and
	// Request. said is what the user said before, last first.
	Planning func(said []string) *retrieval.Planning
	// Reranking, if not nil, returns what orders what is found for one query, for Engine and Request.
	Reranking func() *retrieval.Reranking
	// Grading, if not nil, returns what grades what is selected for one request: Ranking is not
	// graded.
	Grading func() *retrieval.Grading
	// Progress, if not nil, is told how many queries are done.
	Progress func(done int)
}

// A Stage is a part of a search whose contribution is measured.
type Stage struct {
	Name    string
	Engine  retrieval.Retriever
	Planned bool // with the further queries of Trial.Planning
}

// Measures are those of one ranking, or the means of several.
type Measures struct{ NDCG, RecallNear, RecallFar, ReciprocalRank float64 }

// measures returns those of a ranking of at least a hundred documents.
func (g Grades) measures(ranking []string) Measures {
	return Measures{
		NDCG: g.NDCG(ranking, near), ReciprocalRank: g.ReciprocalRank(ranking, near),
		RecallNear: g.Recall(ranking, near), RecallFar: g.Recall(ranking, far),
	}
}

// add adds other measures, each times a weight.
func (m *Measures) add(o Measures, weight float64) {
	m.NDCG += o.NDCG * weight
	m.RecallNear += o.RecallNear * weight
	m.RecallFar += o.RecallFar * weight
	m.ReciprocalRank += o.ReciprocalRank * weight
}

// An Outcome is the result of one query.
type Outcome struct {
	Query   Query
	Ranking []string      // the best hundred documents
	Scores  []float64     // of these
	Sources []string      // documents whose chunks a request would get, best first
	Took    time.Duration // time of the request's search, as the caller sees it

	Measures            // of Ranking
	Stages   []Measures // of those of the Trial

	Planned  *retrieval.Planned // what came of planning; nil where nothing was planned
	Degraded retrieval.Stage    // what the request's search had to do without
	// Unranked is why a Reranker did not order what was found, for the request or for Ranking; "" if
	// it did, and where nothing is reranked.
	Unranked retrieval.RerankReason
	Ungraded retrieval.RerankReason // why the request's sources were not graded; "" if they were, or are not to be

	First bool // whether the first of the sources is of a relevant document
	Hit   bool // whether a relevant document is among the sources
	Held  bool // whether one is where no least score counts
	Lost  bool // whether the least score takes one away
}

// Run asks the queries one after the other. If ctx ends before all are asked, it returns
// the outcomes so far and no error: they are useful after a long run that is stopped.
func (t Trial) Run(ctx context.Context, c *Collection) ([]Outcome, error) {
	outcomes := make([]Outcome, 0, len(c.Queries))
	for i, q := range c.Queries {
		o, err := t.ask(ctx, q, c.Grades[q.ID])
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("query %s: %w", q.ID, err)
		}
		outcomes = append(outcomes, o)
		if t.Progress != nil {
			t.Progress(i + 1)
		}
	}
	return outcomes, nil
}

func (t Trial) ask(ctx context.Context, q Query, grades Grades) (Outcome, error) {
	o := Outcome{Query: q}
	query := t.Query
	query.Text, query.Previous = q.Text, retrieval.Turns(q.Turns)
	bare := query
	query.Planning = t.planning(q)
	planned := query
	query.Reranking = t.reranking()
	start := time.Now()
	res, err := t.Request.Retrieve(ctx, t.graded(query))
	if o.Took = time.Since(start); err != nil {
		return o, err
	}
	o.Planned, o.Degraded, o.Ungraded = res.Planned, res.Degraded, res.Graded.Failed()
	o.First = len(res.Sources) > 0 && grades[res.Sources[0].Doc] > 0
	for _, s := range res.Sources {
		o.Hit = o.Hit || grades[s.Doc] > 0
		if !slices.Contains(o.Sources, s.Doc) {
			o.Sources = append(o.Sources, s.Doc)
		}
	}
	if err := t.compare(ctx, &o, query, grades); err != nil {
		return o, err
	}
	whole, err := rank(ctx, t.Engine, query)
	if err != nil {
		return o, err
	}
	o.Ranking, o.Scores, o.Measures = whole.ids, whole.scores, grades.measures(whole.ids)
	o.Unranked = cmp.Or(res.Reranked.Failed(), whole.unranked)
	for _, s := range t.Stages {
		one := bare
		if s.Planned {
			one = planned
		}
		alone, err := rank(ctx, s.Engine, one)
		if err != nil {
			return o, fmt.Errorf("%s: %w", s.Name, err)
		}
		o.Stages = append(o.Stages, grades.measures(alone.ids))
	}
	return o, nil
}

// graded returns a query that is graded as requests are.
func (t Trial) graded(q retrieval.Query) retrieval.Query {
	if t.Grading != nil {
		q.Grading = t.Grading()
	}
	return q
}

// reranking returns what orders what is found for one query; nil for nothing.
func (t Trial) reranking() *retrieval.Reranking {
	if t.Reranking == nil {
		return nil
	}
	return t.Reranking()
}

// planning returns what plans for a query; nil for nothing.
func (t Trial) planning(q Query) *retrieval.Planning {
	if t.Planning == nil {
		return nil
	}
	said := slices.Clone(q.Turns)
	slices.Reverse(said)
	return t.Planning(said)
}

// compare asks the query of an outcome again, without a least score, to see what that takes.
func (t Trial) compare(ctx context.Context, o *Outcome, q retrieval.Query, grades Grades) error {
	q.Settings.ScoreThreshold = 0
	if q.Reranking != nil {
		by := *q.Reranking
		by.Threshold = 0
		q.Reranking = &by
	}
	res, err := t.Request.Retrieve(ctx, q)
	if err != nil {
		return err
	}
	for _, s := range res.Sources {
		if grades[s.Doc] > 0 {
			o.Held = true
			o.Lost = o.Lost || !slices.Contains(o.Sources, s.Doc)
		}
	}
	return nil
}

// A ranking is documents, best first.
type ranking struct {
	ids      []string
	scores   []float64
	unranked retrieval.RerankReason // as in Outcome
}

// rank asks an engine for more and more chunks until they are of enough documents, or until
// it has no more.
func rank(ctx context.Context, engine retrieval.Retriever, q retrieval.Query) (r ranking, err error) {
	for n := firstCandidates; ; n *= 4 {
		q.Settings.NumCandidates = n
		res, err := engine.Retrieve(ctx, q)
		if err != nil {
			return r, err
		}
		ranked := Rank(res.Sources)
		if len(ranked) < far && len(res.Sources) >= n {
			continue
		}
		for _, s := range first(ranked, far) {
			r.ids, r.scores = append(r.ids, s.Doc), append(r.scores, s.Score)
		}
		r.unranked = res.Reranked.Failed()
		return r, nil
	}
}

// Rank orders documents by their best chunk, and returns these chunks. Documents of equal
// score are in order of their ids, as in the engine; trec_eval orders them the other way
// round. The order of sources does not matter.
func Rank(sources []retrieval.Source) []retrieval.Source {
	ranked := slices.Clone(sources)
	slices.SortFunc(ranked, func(a, b retrieval.Source) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc), cmp.Compare(a.Chunk, b.Chunk))
	})
	seen := make(map[string]bool, len(ranked))
	return slices.DeleteFunc(ranked, func(s retrieval.Source) bool {
		again := seen[s.Doc]
		seen[s.Doc] = true
		return again
	})
}

// A Summary holds the means over some outcomes.
type Summary struct {
	Queries int // asked

	Measures
	Stages []Measures // of those of the Trial

	First         float64 // share of the queries whose first source is of a relevant document
	Hit           float64 // share of the queries that get a relevant document
	Lost          float64 // share of those with one that lose it, or one of several, to the least score
	Empty         int     // queries that get no source at all
	P50, P95, P99 time.Duration
}

// Summarise returns the means of outcomes.
func Summarise(outcomes []Outcome) Summary {
	s := Summary{Queries: len(outcomes)}
	if s.Queries == 0 {
		return s
	}
	times := make([]time.Duration, 0, len(outcomes))
	held, lost := 0, 0
	s.Stages = slices.Repeat([]Measures{{}}, len(outcomes[0].Stages))
	for _, o := range outcomes {
		if o.Held {
			held++
		}
		if o.Lost {
			lost++
		}
		s.add(o.Measures, 1)
		for i, m := range o.Stages {
			s.Stages[i].add(m, 1/float64(len(outcomes)))
		}
		if o.First {
			s.First++
		}
		if o.Hit {
			s.Hit++
		}
		if len(o.Sources) == 0 {
			s.Empty++
		}
		times = append(times, o.Took)
	}
	for _, sum := range []*float64{&s.NDCG, &s.RecallNear, &s.RecallFar, &s.ReciprocalRank, &s.First, &s.Hit} {
		*sum /= float64(len(outcomes))
	}
	if held > 0 {
		s.Lost = float64(lost) / float64(held)
	}
	s.P50, s.P95, s.P99 = quantile(times, .5), quantile(times, .95), quantile(times, .99)
	return s
}

// Worst returns the n outcomes with the least nDCG, worst first. Of equal ones come first
// those whose requests get nothing relevant, then those with the smaller recall at 100,
// then in the order of outcomes.
func Worst(outcomes []Outcome, n int) []Outcome {
	worst := slices.Clone(outcomes)
	slices.SortStableFunc(worst, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(a.NDCG, b.NDCG), cmp.Compare(one(a.Hit), one(b.Hit)), cmp.Compare(a.RecallFar, b.RecallFar))
	})
	return first(worst, n)
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
