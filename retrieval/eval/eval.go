// Package eval measures retrieval quality: it reads a collection of documents and queries with
// known answers, runs the queries, and computes standard measures, so that results can be compared
// with published ones.
//
// It depends on no engine and prints nothing.
package eval

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"sidenote/retrieval"
)

// The depths at which rankings are measured.
const (
	near = 10  // what people look at and what fits into prompts
	far  = 100 // what a reranker may choose from
)

// firstCandidates is the initial number of chunks to request.
const firstCandidates = 200

// A Trial runs the queries of a collection.
type Trial struct {
	// Engine ranks documents: as many chunks are requested from it as are needed for a hundred
	// documents.
	Engine retrieval.Retriever
	// Request is the retriever that requests use. It is called with Query and the text of each
	// query, and its time is measured, so it should have no cache.
	Request retrieval.Retriever
	Query   retrieval.Query
	// Stages are parts of Engine that are also ranked alone.
	Stages []Stage
	// Planning, if not nil, returns the Planning of one query, for Engine and Request. said holds
	// the earlier user turns, last first.
	Planning func(said []string) *retrieval.Planning
	// Reranking, if not nil, returns the Reranking of one query, for Engine and Request.
	Reranking func() *retrieval.Reranking
	// Grading, if not nil, returns the Grading of one query, for Request only: Ranking is not
	// graded.
	Grading func() *retrieval.Grading
	// Progress, if not nil, is called with the number of finished queries.
	Progress func(done int)
}

// A Stage is a part of a search whose contribution is measured.
type Stage struct {
	Name    string
	Engine  retrieval.Retriever
	Planned bool // include the further queries of Trial.Planning
}

// Measures are the measures of one ranking, or the means of several.
type Measures struct{ NDCG, RecallNear, RecallFar, ReciprocalRank float64 }

// measures returns the measures of a ranking, which must be complete or have a hundred documents.
func (g Grades) measures(ranking []string) Measures {
	return Measures{
		NDCG: g.NDCG(ranking, near), ReciprocalRank: g.ReciprocalRank(ranking, near),
		RecallNear: g.Recall(ranking, near), RecallFar: g.Recall(ranking, far),
	}
}

// add adds other measures, multiplied by a weight.
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
	Scores  []float64     // of Ranking
	Sources []string      // documents of the sources that a request would get, best first
	Took    time.Duration // time of the request's search, as seen by the caller

	Measures            // of Ranking
	Stages   []Measures // of Trial.Stages

	Planned  *retrieval.Planned // report of planning; nil if nothing was planned
	Degraded retrieval.Stage    // stage that failed in the request's search
	// Unranked is why a Reranker failed, for the request or for Ranking; "" if it did not, or if
	// nothing is reranked.
	Unranked retrieval.RerankReason
	Ungraded retrieval.RerankReason // why grading of the request failed; "" if it did not, or is off

	First bool // the first source is of a relevant document
	Hit   bool // a relevant document is among the sources
	Held  bool // one would be among them without the threshold
	Lost  bool // the threshold removes one
}

// Run runs the queries one after the other. If ctx ends before all are done, it returns the
// outcomes so far and no error, since they are useful after a long run is stopped.
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

// graded returns a query that is graded like those of requests.
func (t Trial) graded(q retrieval.Query) retrieval.Query {
	if t.Grading != nil {
		q.Grading = t.Grading()
	}
	return q
}

// reranking returns the Reranking of one query; nil if nothing is reranked.
func (t Trial) reranking() *retrieval.Reranking {
	if t.Reranking == nil {
		return nil
	}
	return t.Reranking()
}

// planning returns the Planning of a query; nil if nothing is planned.
func (t Trial) planning(q Query) *retrieval.Planning {
	if t.Planning == nil {
		return nil
	}
	said := slices.Clone(q.Turns)
	slices.Reverse(said)
	return t.Planning(said)
}

// compare repeats the query of an outcome without a threshold, to see what the threshold removes.
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

// A ranking lists documents, best first.
type ranking struct {
	ids      []string
	scores   []float64
	unranked retrieval.RerankReason // as in Outcome
}

// rank requests more and more chunks from an engine until they cover enough documents, or until
// the engine has no more.
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

// Rank orders documents by their best chunk, and returns these chunks. Documents with equal scores
// are ordered by id, as in the engine; trec_eval uses the opposite order. The order of sources
// does not matter.
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

// A Summary holds the means of outcomes.
type Summary struct {
	Queries int // number of outcomes

	Measures
	Stages []Measures // of Trial.Stages

	First         float64 // share of the queries whose first source is of a relevant document
	Hit           float64 // share of the queries that get a relevant document
	Lost          float64 // share of the queries with relevant sources that lose one to the threshold
	Empty         int     // number of queries without sources
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

// Worst returns the n outcomes with the lowest nDCG, worst first. Ties are broken by requests
// without a relevant source first, then by lower recall at 100, then by the order of outcomes.
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
