package proxy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"sidenote/cache/budget"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
)

// A PlanAPI calls models, as services.LLM does.
type PlanAPI interface {
	Ask(ctx context.Context, to services.LLMCall, p services.Prompt) (services.LLMAnswer, error)
}

// Plans caches plans, as cache.Plans does.
type Plans interface {
	Plan(ctx context.Context, tenant string, key []string, find func(context.Context) (retrieval.Plan, error)) (retrieval.Plan, error)
}

// scores caches the scores of documents, as cache.Scores does.
type scores interface {
	Scores(ctx context.Context, tenant string, key []string, find func(context.Context) ([]float64, error)) ([]float64, error)
}

// A PlanUpstream is an upstream that planners, rerankers and graders may call.
type PlanUpstream struct {
	API  PlanAPI
	Base string      // its base URL
	Own  http.Header // headers with Sidenote's own key; nil: the caller's credentials are used
}

// Planners holds what the planners, rerankers and graders of all requests share. Models is
// required, Plans if there are Upstreams, and Scores if there are Scorers, Judges or Graders. Its
// fields must not change once it is in use.
type Planners struct {
	Upstreams map[string]PlanUpstream // for planning
	Plans     Plans
	Scorers   map[RerankService]Scorer // for reranking
	Judges    map[string]PlanUpstream  // for reranking by chat models
	Graders   map[string]PlanUpstream  // for grading by chat models
	Scores    scores
	Models    rewrite.Models
	Meter     *budget.Meter                                       // nil: nothing is reserved
	Used      func(tenant string, kind budget.Kind, tokens int64) // called for each answer
}

// A PlanRequest describes the request to plan, rerank or grade for.
type PlanRequest struct {
	Tenant   string
	ID       string // unique
	Upstream string // upstream of the request
	Model    string // model that the request names
	Path     string // on Upstream, with the query; "": that of chat completions

	// Credentials are the caller's for Upstream. They are sent to no other upstream, and only if
	// Sidenote has no key of its own.
	Credentials http.Header

	Settings retrieval.PlanSettings
	Rerank   retrieval.RerankSettings
	Grade    retrieval.GradeSettings
	Terms    *budget.Terms // of the tenant
	Bare     budget.Amount // cost of the request without sources; planning must leave room for it
}

// PlanDryRun returns a PlanRequest without a caller and so without credentials. Its calls are
// charged to the tenant of p as usual.
func PlanDryRun(p *rewrite.Policy, model string, terms *budget.Terms) PlanRequest {
	return PlanRequest{Tenant: p.Tenant, ID: rand.Text(), Upstream: p.Upstream, Model: model, Settings: p.Planner, Rerank: p.Rerank, Grade: p.Grade, Terms: terms}
}

// A Planner plans the search of one request. It calls the model at most once: a request that is
// rewritten again to be cheaper uses the same plan.
type Planner struct {
	all  *Planners
	of   PlanRequest
	once sync.Once
	plan retrieval.Plan
	err  error
}

// Help sets the planner, reranker and grader of policy for a request, as far as policy uses them.
// It returns the planner, nil if there is none. It does nothing if p is nil.
func (p *Planners) Help(policy *rewrite.Policy, of PlanRequest) (planner *Planner) {
	if p == nil {
		return nil
	}
	if policy.Planner.MaxQueries > 0 {
		planner = p.For(of)
		policy.PlannedBy = planner
	}
	if policy.Rerank.Documents > 0 {
		policy.RerankedBy = p.Reranker(of)
	}
	if policy.Grade.By == retrieval.GradeByModel {
		policy.GradedBy = p.Grader(of)
	}
	return planner
}

// For returns the planner of a request.
func (p *Planners) For(of PlanRequest) *Planner { return &Planner{all: p, of: of} }

// errNoRoom reports that a call was skipped to leave budget for the request; a planner's under the
// rung no_planner.
var errNoRoom = fmt.Errorf("no room in the budget: %w", retrieval.ErrNotAsked)

// GaveWay reports whether planning was skipped because the budget had no room for it.
func (p *Planner) GaveWay() bool { return p != nil && errors.Is(p.err, errNoRoom) }

// Refusal returns why the request must be refused: the budget had no room for planning, and the
// tenant's ladder does not allow skipping it. It returns nil if the request may continue.
func (p *Planner) Refusal() *budget.Refusal {
	if p == nil {
		return nil
	}
	refusal, _ := errors.AsType[*budget.Refusal](p.err)
	return refusal
}

// Plan implements retrieval.Planner.
func (p *Planner) Plan(ctx context.Context, q retrieval.Question) (retrieval.Plan, error) {
	p.once.Do(func() { p.plan, p.err = p.find(ctx, q) })
	return p.plan, p.err
}

func (p *Planner) find(ctx context.Context, q retrieval.Question) (retrieval.Plan, error) {
	name := p.of.Settings.Upstream
	to := services.LLMCall{}
	if name == "" {
		name, to.Path, to.Header = p.of.Upstream, p.of.Path, p.of.Credentials
	}
	u, ok := p.all.Upstreams[name]
	model := p.of.Settings.Model
	if model == "" {
		model = p.of.Model
	}
	if !ok || model == "" {
		return retrieval.Plan{}, fmt.Errorf("no model: %w", retrieval.ErrNotAsked)
	}
	if u.Own != nil {
		to.Header, to.Own = u.Own, true
	}
	key := append([]string{
		services.PlanVersion, name, u.Base, to.Path, fingerprint(to.Header), model,
		strconv.Itoa(q.MaxQueries), strconv.FormatBool(q.MaySkip), q.Text,
	}, q.Earlier...)
	// The caller waits for Settings.Timeout only. The call may run longer: a late plan is cached
	// for the next request.
	var asked atomic.Bool // atomic: a flight may outlive its caller
	found, err := p.all.Plans.Plan(ctx, p.of.Tenant, key, func(flight context.Context) (retrieval.Plan, error) {
		asked.Store(true)
		return p.ask(flight, ctx, u.API, to, model, q)
	})
	found.Cached = err == nil && !asked.Load()
	return found, err
}

// ask calls the model and charges the call. waiting ends when no caller waits for the plan.
func (p *Planner) ask(ctx, waiting context.Context, api PlanAPI, to services.LLMCall, model string, q retrieval.Question) (retrieval.Plan, error) {
	m := p.all.Models.Model(model)
	prompt, err := services.PlanPrompt(modelOf(model, &m), q)
	if err != nil {
		return retrieval.Plan{}, err
	}
	b, err := p.all.reserve(ctx, &p.of, budget.Planner, 0, model, m, prompt)
	if err != nil {
		return retrieval.Plan{}, err
	}
	defer b.settle()
	defer b.settleAfter(waiting)()
	answer, err := api.Ask(ctx, to, prompt)
	b.ended(0, answer, err)
	switch {
	case errors.Is(err, services.ErrNoCompletion):
		return retrieval.Plan{}, fmt.Errorf("%w: %w", retrieval.ErrBadPlan, err)
	case err != nil:
		return retrieval.Plan{}, err
	}
	return services.ReadPlan(answer.Text)
}

// modelOf returns the properties of a model that its prompt depends on.
func modelOf(name string, m *rewrite.Model) services.LLMModel {
	return services.LLMModel{
		Name: name, CompletionCap: m.CompletionCap, FixedTemperature: m.FixedTemperature,
		Reasoning: m.ReasoningTokens(), Effort: m.LowEffort(),
	}
}

// fingerprint returns a hash of credentials, for cache keys.
func fingerprint(h http.Header) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			fmt.Fprintf(sum, "%d:%s%d:%s", len(name), name, len(value), value)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
