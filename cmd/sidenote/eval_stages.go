package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/rewrite"
)

// The stages whose contributions are shown.
const (
	lexical  = "lexical"  // words alone
	dense    = "dense"    // vectors alone
	fused    = "fused"    // both
	planned  = "planned"  // with the queries of a plan
	reranked = "reranked" // all of that, reranked
)

// Used counts the tokens sent to services for an evaluation. It is safe for concurrent use.
type evalUsage struct{ passages, questions, planner, reranker, grader atomic.Int64 }

// Count implements server.Options.Used.
func (u *evalUsage) Count(use server.Use, tokens int64) {
	switch use {
	case server.Passages:
		u.passages.Add(tokens)
	case server.Questions:
		u.questions.Add(tokens)
	case server.Planning:
		u.planner.Add(tokens)
	case server.Reranking:
		u.reranker.Add(tokens)
	case server.Grading:
		u.grader.Add(tokens)
	}
}

// A collectedRun is a collection's documents, indexed as a base of an engine, and the policy to
// search it with.
type collectedRun struct {
	engine    *server.Engine
	policy    tenant.Policy
	documents []eval.Document
	content   *knowledge.Content
	start     time.Time
}

// collectRun indexes the documents of a collection in memory, as the base ScratchBase of e.
func collectRun(ctx context.Context, e *server.Engine, policy tenant.Policy, documents []eval.Document, show *terminal.Progress) (*collectedRun, error) {
	c := &collectedRun{engine: e, policy: policy, documents: documents, start: time.Now()}
	var err error
	c.content, err = indexDocuments(ctx, documents, e.Reader, show)
	return c, err
}

// Estimate returns what embedding the base would take; embeds is false if it is not to be
// embedded.
func (c *collectedRun) Estimate(ctx context.Context) (_ server.EmbeddingEstimate, embeds bool, err error) {
	if !isEmbedded(c.engine, scratchBase) {
		return server.EmbeddingEstimate{}, false, nil
	}
	client, kept := server.Vectors(c.engine)
	vectors := library.VectorsOf(kept)
	estimate, err := (&server.EmbeddingPlanner{Client: client, Kept: &vectors}).Base(ctx, c.content)
	return estimate, true, err
}

// Subject embeds the base if the configuration says so, and returns the subject of an evaluation.
// It is searched as by requests of the policy, but without the policy's filters and the thresholds
// of its bases, which apply to other documents.
func (c *collectedRun) Subject(ctx context.Context, model string, used *evalUsage, show *terminal.Progress) (*evalSubject, error) {
	p := c.policy.Rewrite
	p.Search.Thresholds = nil
	s := &evalSubject{Documents: c.documents, Settings: p.Search, Policy: c.policy.Name, Used: used}
	if isEmbedded(c.engine, scratchBase) {
		if err := c.embed(ctx, show); err != nil {
			return nil, err
		}
	}
	used.questions.Store(0) // those were for the base, not for queries
	c.engine.Bases.Swap(scratchBase, c.content, folder.Report{})
	if err := s.count(ctx, c.engine, scratchBase, c.content); err != nil {
		return nil, err
	}
	s.Index = time.Since(c.start)
	s.ask(retrieval.Query{Tenant: p.Tenant, Bases: []retrieval.Ref{{Knowledge: scratchBase}}})
	return s, s.stage(c.engine, p, model)
}

// embed makes the missing vectors, and adds all vectors to the base.
func (c *collectedRun) embed(ctx context.Context, show *terminal.Progress) error {
	client, kept := server.Vectors(c.engine)
	maker := server.NewVectorMaker(client, kept, int(c.engine.Config.Embeddings.TokensPerDay))
	report, err := maker.EmbedContent(ctx, scratchBase, c.content, func(p server.EmbeddingProgress) {
		show.Show(terminal.Work{Name: "embedding", Done: p.Done, Total: p.Chunks, Unit: "chunks", Note: terminal.Plural(p.Tokens, "token")})
	})
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped while the documents were being embedded")
	case err != nil:
		return fmt.Errorf("%s of %s embedded: %w", terminal.Thousands(report.Chunks-report.Missing()), terminal.Plural(report.Chunks, "chunk"), err)
	}
	c.content, err = kept.WithVectors(ctx, scratchBase, c.content)
	return err
}

// embedded reports whether the chunks of a base are to be embedded.
func isEmbedded(e *server.Engine, base string) bool {
	for _, name := range config.Embedded(e.Config) {
		if string(name) == base {
			return true
		}
	}
	return false
}

// count adds the numbers of a base to the subject.
func (s *evalSubject) count(ctx context.Context, e *server.Engine, id string, c *knowledge.Content) error {
	s.Chunks += c.Chunks()
	if !isEmbedded(e, id) {
		return nil
	}
	vectors, _ := c.Embedded()
	if vectors > 0 {
		weight, _ := c.DenseWeight()
		if s.Weights == nil {
			s.Weights = map[string]float64{}
		}
		s.Weights[id] = cmp.Or(s.Settings.DenseWeight, weight)
	}
	client, _ := server.Vectors(e)
	estimate, err := (&server.EmbeddingPlanner{Client: client}).Base(ctx, c)
	s.Embeds, s.Vectors, s.Tokens = true, s.Vectors+vectors, s.Tokens+estimate.Tokens
	return err
}

// ErrNoModel means that the planner's model cannot be determined.
var errNoPlannerModel = errors.New("the policy's planner is auto, the model of the request; name one by --model")

// stage sets the retrievers that rank and answer as for requests of a policy.
func (s *evalSubject) stage(e *server.Engine, p rewrite.Policy, model string) error {
	ranking, ordered, request := server.Uncached(e)
	words, vectors := server.WordAndVectorRetrievers(e)
	add := func(name string, r retrieval.Retriever, plans bool) {
		s.Stages, s.ranking = append(s.Stages, name), s.naming(r)
		s.alone = append(s.alone, eval.Stage{Name: name, Engine: s.ranking, Planned: plans})
	}
	switch {
	case s.Vectors == 0 && len(s.Engines) > 0:
		add(lexical, ranking, false)
	case len(s.Engines) > 0: // which ranks by both at once
		add(fused, ranking, false)
	default:
		add(lexical, words, false)
	}
	if s.Vectors > 0 && len(s.Engines) == 0 {
		add(dense, vectors, false)
		add(fused, ranking, false)
	}
	s.request = s.naming(request)
	plans := p.Planner.MaxQueries > 0
	if plans {
		if p.Planner.Model == "" && model == "" {
			return errNoPlannerModel
		}
		s.planning = func(said []string) *retrieval.Planning {
			one := p
			one.PlannedBy = e.Planners.For(proxy.PlanDryRun(&one, model, nil))
			return one.Planning(model, said)
		}
		add(planned, orderedRanking{ordered}, true)
	}
	if p.Rerank.Documents > 0 {
		s.reranking = func() *retrieval.Reranking {
			one := p
			one.RerankedBy = &scorer{next: e.Planners.Reranker(proxy.PlanDryRun(&one, model, nil))}
			return one.Reranking()
		}
		add(reranked, orderedRanking{ordered}, plans)
	}
	s.alone = s.alone[:len(s.alone)-1]
	if p.Grade.By != retrieval.GradeByNobody {
		s.grading = func() *retrieval.Grading {
			one := p
			one.GradedBy = e.Planners.Grader(proxy.PlanDryRun(&one, model, nil))
			return one.Grading()
		}
	}
	return nil
}

// An orderedRanking ranks all candidates in the order that requests get.
type orderedRanking struct{ ordered retrieval.Retriever }

// Retrieve returns at least as many chunks as the query's candidates, if there are so many.
func (r orderedRanking) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	q.Settings.ScoreThreshold = 0
	res, err := r.ordered.Retrieve(ctx, q)
	for i := range res.Sources {
		switch s := &res.Sources[i]; {
		case res.Reranked != nil && res.Reranked.Reason == retrieval.RerankOK: // most other scores are on another scale
			s.Score = float64(len(res.Sources) - i)
		case res.Planned != nil: // scores of different queries do not compare
			s.Score = s.Relevance
		}
	}
	return res, err
}

// A scorer caches the scores of a reranker for one question, which is asked twice: as by requests,
// and to rank all candidates. After a failure it does not call the reranker again.
type scorer struct {
	next   retrieval.Reranker
	scores map[string]float64 // by document
	err    error
}

// Rerank implements retrieval.Reranker, for one goroutine at a time.
func (s *scorer) Rerank(ctx context.Context, query string, documents []string) ([]float64, error) {
	unknown := slices.DeleteFunc(slices.Clone(documents), func(text string) bool { _, known := s.scores[text]; return known })
	if len(unknown) > 0 && s.err == nil {
		s.err = s.ask(ctx, query, unknown)
	}
	if s.err != nil {
		return nil, s.err
	}
	scores := make([]float64, len(documents))
	for i, text := range documents {
		scores[i] = s.scores[text]
	}
	return scores, nil
}

// ask requests the scores of documents.
func (s *scorer) ask(ctx context.Context, query string, documents []string) error {
	scores, err := s.next.Rerank(ctx, query, documents)
	if err == nil && len(scores) != len(documents) {
		err = retrieval.ErrBadScores
	}
	if err != nil {
		return err
	}
	if s.scores == nil {
		s.scores = map[string]float64{}
	}
	for i, text := range documents {
		s.scores[text] = scores[i]
	}
	return nil
}
