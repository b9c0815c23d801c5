package evaluation

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/cmd/sidenote/internal/engine/embedding"
	"sidenote/proxy"
	"sidenote/proxy/planning"
	"sidenote/retrieval"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/rewrite"
)

// The stages whose contributions are shown.
const (
	lexical = "lexical" // words alone
	dense   = "dense"   // vectors alone
	fused   = "fused"   // both
	planned = "planned" // and the queries of a plan
)

// Used are the tokens that services were sent for an evaluation. It is safe for concurrent use.
type Used struct{ passages, questions, planner atomic.Int64 }

// Count is an engine.Options.Used.
func (u *Used) Count(use engine.Use, tokens int64) {
	switch use {
	case engine.Passages:
		u.passages.Add(tokens)
	case engine.Questions:
		u.questions.Add(tokens)
	case engine.Planning:
		u.planner.Add(tokens)
	}
}

// A Collected is the base of the documents of a collection in an engine, and what it is asked by.
type Collected struct {
	engine    *engine.Engine
	policy    proxy.Policy
	documents []eval.Document
	content   *knowledge.Content
	start     time.Time
}

// Collect indexes the documents of a collection in memory, as the base ScratchBase of e.
func Collect(ctx context.Context, e *engine.Engine, policy proxy.Policy, documents []eval.Document, show *console.Progress) (*Collected, error) {
	c := &Collected{engine: e, policy: policy, documents: documents, start: time.Now()}
	var err error
	c.content, err = index(ctx, documents, e.Reader, show)
	return c, err
}

// Estimate says what it would take to embed the base; false if it is not to be embedded.
func (c *Collected) Estimate(ctx context.Context) (_ embedding.Estimate, embeds bool, err error) {
	if !embedded(c.engine, ScratchBase) {
		return embedding.Estimate{}, false, nil
	}
	client, kept := engine.Vectors(c.engine)
	vectors := library.VectorsOf(kept)
	estimate, err := (&embedding.Planner{Client: client, Kept: &vectors}).Base(ctx, c.content)
	return estimate, true, err
}

// Subject embeds the base where the configuration says so, and returns what is asked of it: as
// requests of the policy do, but for the policy's filters and the thresholds of its bases, which
// are about other documents.
func (c *Collected) Subject(ctx context.Context, model string, used *Used, show *console.Progress) (*Subject, error) {
	p := c.policy.Rewrite
	p.Search.Thresholds = nil
	s := &Subject{Documents: c.documents, Settings: p.Search, Policy: c.policy.Name, Used: used}
	if embedded(c.engine, ScratchBase) {
		if err := c.embed(ctx, show); err != nil {
			return nil, err
		}
	}
	used.questions.Store(0) // those were of the base, not of whoever asks
	c.engine.Bases.Swap(ScratchBase, c.content, folder.Report{})
	if err := s.count(ctx, c.engine, ScratchBase, c.content); err != nil {
		return nil, err
	}
	s.Index = time.Since(c.start)
	s.ask(retrieval.Query{Tenant: p.Tenant, Bases: []retrieval.Ref{{Knowledge: ScratchBase}}})
	return s, s.stage(c.engine, p, model)
}

// embed makes the vectors that are not kept, and lets the base have them all.
func (c *Collected) embed(ctx context.Context, show *console.Progress) error {
	client, kept := engine.Vectors(c.engine)
	maker := embedding.NewMaker(client, kept, int(c.engine.Config.Embeddings.TokensPerDay))
	report, err := maker.EmbedContent(ctx, ScratchBase, c.content, func(p embedding.Progress) {
		show.Show(console.Work{Name: "embedding", Done: p.Done, Total: p.Chunks, Unit: "chunks", Note: console.Plural(p.Tokens, "token")})
	})
	switch {
	case ctx.Err() != nil:
		return errors.New("stopped while the documents were being embedded")
	case err != nil:
		return fmt.Errorf("%s of %s embedded: %w", console.Thousands(report.Chunks-report.Missing()), console.Plural(report.Chunks, "chunk"), err)
	}
	c.content, err = kept.WithVectors(ctx, ScratchBase, c.content)
	return err
}

// embedded tells whether the chunks of a base are to be embedded.
func embedded(e *engine.Engine, base string) bool {
	for _, name := range config.Embedded(e.Config) {
		if string(name) == base {
			return true
		}
	}
	return false
}

// count counts the chunks of a base.
func (s *Subject) count(ctx context.Context, e *engine.Engine, id string, c *knowledge.Content) error {
	s.Chunks += c.Chunks()
	if !embedded(e, id) {
		return nil
	}
	vectors, _ := c.Embedded()
	client, _ := engine.Vectors(e)
	estimate, err := (&embedding.Planner{Client: client}).Base(ctx, c)
	s.Embeds, s.Vectors, s.Tokens = true, s.Vectors+vectors, s.Tokens+estimate.Tokens
	return err
}

// ErrNoModel says that nobody can tell which model plans.
var ErrNoModel = errors.New("the policy's planner is auto, the model of the request; name one by --model")

// ErrReranked says that a stage of the policy is not measured.
var ErrReranked = errors.New("the policy reranks, which eval does not measure; say rerank: off in a copy of it")

// stage makes what ranks, and answers, as requests of a policy do.
func (s *Subject) stage(e *engine.Engine, p rewrite.Policy, model string) error {
	if p.Rerank.Documents > 0 {
		return ErrReranked
	}
	ranking, request := engine.Uncached(e)
	words, vectors := engine.Arms(e)
	add := func(name string, r retrieval.Retriever) {
		s.Stages, s.alone = append(s.Stages, name), append(s.alone, eval.Stage{Name: name, Engine: s.naming(r)})
	}
	add(lexical, words)
	if s.Vectors > 0 {
		add(dense, vectors)
		add(fused, ranking)
	}
	s.ranking, s.request = s.naming(ranking), s.naming(request)
	if p.Planner.MaxQueries > 0 {
		if p.Planner.Model == "" && model == "" {
			return ErrNoModel
		}
		s.planning = func(said []string) *retrieval.Planning {
			one := p
			one.PlannedBy = e.Planners.For(planning.DryRun(&one, model, nil))
			return one.Planning(model, said)
		}
		add(planned, nil)
		s.ranking = s.naming(wholeRanking{request})
	}
	s.alone = s.alone[:len(s.alone)-1]
	return nil
}

// A wholeRanking ranks all that the queries of a plan find, of what makes requests' short lists.
type wholeRanking struct{ request retrieval.Retriever }

// Retrieve returns as many chunks as the query has candidates, also those that say the same.
func (w wholeRanking) Retrieve(ctx context.Context, q retrieval.Query) (retrieval.Result, error) {
	n := q.Settings.NumCandidates
	q.Settings.TopK, q.Settings.MaxPerDocument, q.Settings.ScoreThreshold = n, n, 0
	res, err := w.request.Retrieve(ctx, q)
	for i := range res.Excluded {
		if x := &res.Excluded[i]; x.Reason == retrieval.ExcludedDup {
			res.Sources = append(res.Sources, x.Source())
		}
	}
	for i := range res.Sources { // scores of different queries do not compare
		res.Sources[i].Score = res.Sources[i].Relevance
	}
	return res, err
}
