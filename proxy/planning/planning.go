// Package planning asks planners, rerankers and graders on behalf of requests: in the name of whoever pays
// for the request, within that tenant's budget, and not again where the same was asked before.
package planning

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

// An API asks models: a services.LLM.
type API interface {
	Ask(ctx context.Context, to services.LLMCall, p services.Prompt) (services.LLMAnswer, error)
}

// Plans remembers plans: a cache.Plans.
type Plans interface {
	Plan(ctx context.Context, tenant string, key []string, find func(context.Context) (retrieval.Plan, error)) (retrieval.Plan, error)
}

// Scores remembers what documents are worth: a cache.Scores.
type Scores interface {
	Scores(ctx context.Context, tenant string, key []string, find func(context.Context) ([]float64, error)) ([]float64, error)
}

// An Upstream is one that planners may ask.
type Upstream struct {
	API  API
	Base string      // its base URL
	Own  http.Header // Sidenote's own key for it; nil: callers bring theirs
}

// Planners are what planners, rerankers and graders of requests share. Models is required, Plans where
// there are Upstreams, and Scores where there are Scorers, Judges or Graders; fields do not change once
// it is in use.
type Planners struct {
	Upstreams map[string]Upstream // that plan
	Plans     Plans
	Scorers   map[Service]Scorer  // that rerank
	Judges    map[string]Upstream // whose chat models do
	Graders   map[string]Upstream // whose chat models grade
	Scores    Scores
	Models    rewrite.Models
	Meter     *budget.Meter                                       // nil: nothing is reserved
	Used      func(tenant string, kind budget.Kind, tokens int64) // hears of each answer
}

// A Request is one that something is planned, reranked or graded for.
type Request struct {
	Tenant   string
	ID       string // unique
	Upstream string // that will answer it
	Model    string // that it names
	Path     string // on Upstream, with its query; "": that of chat completions

	// Credentials are the caller's for Upstream. They go there and nowhere else, and only where
	// Sidenote has no key of its own.
	Credentials http.Header

	Settings retrieval.PlanSettings
	Rerank   retrieval.RerankSettings
	Grade    retrieval.GradeSettings
	Terms    *budget.Terms // of the tenant
	Bare     budget.Amount // what the request takes without any source: a plan must leave room for it
}

// DryRun is a request of nobody for a model. Helpers are asked in no caller's name, and its tenant
// pays as for any other.
func DryRun(p *rewrite.Policy, model string, terms *budget.Terms) Request {
	return Request{Tenant: p.Tenant, ID: rand.Text(), Upstream: p.Upstream, Model: model, Settings: p.Planner, Rerank: p.Rerank, Grade: p.Grade, Terms: terms}
}

// A Planner plans for one request. However often it is asked, the model is once at most: the
// request is rewritten again where it has to be cheaper, and searches for the same then.
type Planner struct {
	all  *Planners
	of   Request
	once sync.Once
	plan retrieval.Plan
	err  error
}

// Help lets a policy ask for a request, and returns its planner, nil if it has none. Without
// Planners nobody is asked.
func (p *Planners) Help(policy *rewrite.Policy, of Request) (planner *Planner) {
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
func (p *Planners) For(of Request) *Planner { return &Planner{all: p, of: of} }

// errNoRoom says that the planner gave way to the request itself, on the rung no_planner.
var errNoRoom = fmt.Errorf("no room in the budget: %w", retrieval.ErrNotAsked)

// GaveWay tells whether the budget had no room for planning, and the request goes on without.
func (p *Planner) GaveWay() bool { return p != nil && errors.Is(p.err, errNoRoom) }

// Refusal is why the request itself is to be refused: the budget had no room for planning, and
// the tenant's ladder does not leave it out. It is nil where it is not.
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
	// Who waits has Settings.Timeout, a call has the time of a flight: a late plan is there for the next.
	var asked atomic.Bool // a flight may outlive its caller
	found, err := p.all.Plans.Plan(ctx, p.of.Tenant, key, func(flight context.Context) (retrieval.Plan, error) {
		asked.Store(true)
		return p.ask(flight, ctx, u.API, to, model, q)
	})
	found.Kept = err == nil && !asked.Load()
	return found, err
}

// ask asks the model, and pays for it; waiting ends when nobody waits for the plan any more.
func (p *Planner) ask(ctx, waiting context.Context, api API, to services.LLMCall, model string, q retrieval.Question) (retrieval.Plan, error) {
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

// modelOf returns what a prompt depends on of a model.
func modelOf(name string, m *rewrite.Model) services.LLMModel {
	return services.LLMModel{
		Name: name, CompletionCap: m.CompletionCap, FixedTemperature: m.FixedTemperature,
		Reasoning: m.ReasoningTokens(), Effort: m.LowEffort(),
	}
}

// fingerprint tells credentials apart without holding them.
func fingerprint(h http.Header) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			fmt.Fprintf(sum, "%d:%s%d:%s", len(name), name, len(value), value)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
