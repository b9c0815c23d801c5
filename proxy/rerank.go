package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"sidenote/cache/budget"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
)

// A Scorer scores documents, as services.Reranker does.
type Scorer interface {
	Scores(ctx context.Context, model, query string, documents []string) ([]float64, error)
}

// A RerankService is an upstream with its reranking dialect.
type RerankService struct {
	Upstream string
	Dialect  services.RerankDialect
}

// A reranker reranks or grades for one request. It calls the service once for equal inputs: a
// request that is rewritten again to be cheaper gets the same scores.
type reranker struct {
	all      *Planners
	of       PlanRequest
	kind     budget.Kind
	settings retrieval.RerankSettings
	judges   map[string]PlanUpstream // upstreams whose chat models may be asked

	mu    sync.Mutex
	asked []scored
	last  scored // the last one that was returned
}

// A scored is a call of the service with its result.
type scored struct {
	query     string
	documents []string
	scores    []float64
	err       error
	kept      bool // from the cache: the service was not called for this request
}

// Reranker returns the reranker of a request.
func (p *Planners) Reranker(of PlanRequest) *reranker {
	return &reranker{all: p, of: of, kind: budget.Rerank, settings: of.Rerank, judges: p.Judges}
}

// Grader returns the grader of a request, which uses the scores of a chat model.
func (p *Planners) Grader(of PlanRequest) *reranker {
	by := retrieval.RerankSettings{Upstream: of.Grade.Upstream, Address: of.Grade.Address, Model: of.Grade.Model, Dialect: string(services.RerankLLM)}
	return &reranker{all: p, of: of, kind: budget.Grade, settings: by, judges: p.Graders}
}

// Rerank implements retrieval.Reranker.
func (r *reranker) Rerank(ctx context.Context, query string, documents []string) ([]float64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, was := range r.asked {
		if was.query == query && slices.Equal(was.documents, documents) {
			r.last = was
			return was.scores, was.err
		}
	}
	r.last = scored{query: query, documents: documents}
	r.last.scores, r.last.kept, r.last.err = r.find(ctx, query, documents)
	r.asked = append(r.asked, r.last)
	return r.last.scores, r.last.err
}

// FromCache implements retrieval.CachedReranker.
func (r *reranker) FromCache() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.kept
}

func (r *reranker) find(ctx context.Context, query string, documents []string) (found []float64, kept bool, err error) {
	s := &r.settings
	scorer, scores := r.all.Scorers[RerankService{s.Upstream, services.RerankDialect(s.Dialect)}]
	u, judges := r.judges[s.Upstream]
	if !scores && !(judges && s.Dialect == string(services.RerankLLM)) {
		return nil, false, fmt.Errorf("no service: %w", retrieval.ErrNotAsked)
	}
	key := []string{services.RerankVersion, s.Upstream, s.Address, s.Dialect, s.Model, query, digest(documents)}
	before := len(r.asked) // a flight may outlive its caller
	var asked atomic.Bool  // likewise
	found, err = r.all.Scores.Scores(ctx, r.of.Tenant, key, func(flight context.Context) ([]float64, error) {
		asked.Store(true)
		if scores {
			return scorer.Scores(flight, s.Model, query, documents)
		}
		return r.judge(flight, ctx, u, before, query, documents)
	})
	return found, err == nil && !asked.Load(), err
}

// digest returns a hash of documents.
func digest(documents []string) string {
	sum := sha256.New()
	for _, text := range documents {
		fmt.Fprintf(sum, "%d:", len(text))
		_, _ = io.WriteString(sum, text)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// judge asks a chat model for scores, with Sidenote's own key, and charges the calls. waiting ends
// when no caller waits for the scores.
func (r *reranker) judge(ctx, waiting context.Context, u PlanUpstream, before int, query string, documents []string) ([]float64, error) {
	model := r.settings.Model
	m := r.all.Models.Model(model)
	prompts, parts, err := services.RerankPrompts(modelOf(model, &m), query, documents)
	if err != nil {
		return nil, err
	}
	b, err := r.all.reserve(ctx, &r.of, r.kind, before, model, m, prompts...)
	if err != nil {
		return nil, err
	}
	defer b.settle()
	defer b.settleAfter(waiting)()
	scores := make([][]float64, len(parts))
	err = services.Each(ctx, len(prompts), func(ctx context.Context, i int) error {
		answer, err := u.API.Ask(ctx, services.LLMCall{Header: u.Own, Own: true}, prompts[i])
		b.ended(i, answer, err)
		switch {
		case errors.Is(err, services.ErrNoCompletion):
			return fmt.Errorf("%w: %w", retrieval.ErrBadScores, err)
		case err != nil:
			return err
		}
		scores[i], err = services.ReadScores(answer.Text, len(parts[i]))
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(scores...), nil
}
