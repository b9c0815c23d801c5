package proxy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
	"sidenote/rewrite/model"
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
	API       PlanAPI
	Base      string      // its base URL
	OwnHeader http.Header // headers with Sidenote's own key; nil: the caller's credentials are used
}

// A CountUpstream is an upstream that counts the tokens of requests.
type CountUpstream struct {
	API interface {
		// CountTokens returns how many tokens the prompt of a request has.
		CountTokens(ctx context.Context, to services.LLMCall, body []byte) (int, error)
	}
	OwnHeader http.Header // as in PlanUpstream
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
	Counters  map[string]CountUpstream // whose counts calibrate ours
	Scores    scores
	Models    rewrite.Models
	Meter     *budget.Meter                                       // nil: nothing is reserved
	OnUsage   func(tenant string, kind budget.Kind, tokens int64) // called for each answer
}

// A PlanRequest describes the request to plan, rerank or grade for.
type PlanRequest struct {
	Tenant   string
	Key      string // name of the caller's API key; "" if it has none
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
	BaseCost budget.Amount // cost of the request without sources; planning must leave room for it
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

// SetHelpers sets the planner, reranker and grader of policy for a request, as far as policy uses
// them. It returns the planner, nil if there is none. It does nothing if p is nil.
func (p *Planners) SetHelpers(policy *rewrite.Policy, of PlanRequest) (planner *Planner) {
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

// Skipped reports whether planning was skipped because the budget had no room for it.
func (p *Planner) Skipped() bool { return p != nil && errors.Is(p.err, errNoRoom) }

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
	if u.OwnHeader != nil {
		to.Header, to.Own = u.OwnHeader, true
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
func modelOf(name string, m *model.Model) services.LLMModel {
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

// overhead is how many tokens the format of a chat adds to the text of its messages.
const overhead = 16

// A part is one model call.
type part struct {
	prompt  int64 // tokens
	longest int64 // most tokens of the answer

	answer services.LLMAnswer
	err    error
}

// A bill is the cost of the helper calls that were reserved together for one request.
type bill struct {
	all     *Planners
	of      *PlanRequest
	kind    budget.Kind
	counter retrieval.Counter
	row     string       // of the model table
	hold    *budget.Hold // nil if no tokens are limited
	prices  budget.Prices

	mu    sync.Mutex
	parts []part // by prompt; each counts as failed until ended is called
}

var errPlanPanic = errors.New("panic")

// reserve reserves budget for calls and also for the request itself, so that the request still
// fits after them; its part is released when the calls have ended. If there is no room for both,
// the error wraps retrieval.ErrNotAsked, and a *budget.Refusal if the ladder does not allow
// skipping the planner. Rerankers and graders are always skipped. before is how many calls of this
// kind were reserved for the request.
func (p *Planners) reserve(ctx context.Context, of *PlanRequest, kind budget.Kind, before int, name string, m model.Model, prompts ...services.Prompt) (*bill, error) {
	b := &bill{all: p, of: of, kind: kind, counter: m.Counter, row: m.Row}
	for _, prompt := range prompts {
		n, _ := m.Counter.Count(prompt.Text)
		b.parts = append(b.parts, part{prompt: int64(n) + overhead, longest: int64(prompt.Output), err: errPlanPanic})
	}
	if p.Meter == nil || of.Terms == nil {
		return b, nil
	}
	prices, err := of.Terms.PricesOf(name, m.Row)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", retrieval.ErrNotAsked, err)
	}
	b.prices = prices.Prices
	if !of.Terms.Tokens() {
		return b, nil
	}
	with := budget.Amount{Tokens: of.BaseCost.Tokens, Money: of.BaseCost.Money}
	for i := range b.parts {
		part := &b.parts[i]
		with.Tokens = min(with.Tokens+part.prompt+part.longest, budget.MaxAmount)
		with.Money = min(with.Money+budget.Money(b.prices.MaxCost(budget.Demand{Input: part.prompt, Output: part.longest})), budget.MaxAmount)
	}
	terms, rung := *of.Terms, budget.NoReranker
	yields := true
	if kind == budget.Planner {
		rung, yields = budget.NoPlanner, slices.Contains(terms.Ladder, budget.NoPlanner)
	}
	if terms.Ladder = nil; yields {
		terms.Ladder = []budget.Rung{rung}
	}
	id := of.ID + ":" + string(kind)
	if before > 0 { // a settled ID must not be reserved again
		id += strconv.Itoa(before + 1)
	}
	call := budget.MeteredCall{Tenant: of.Tenant, ID: id, Kind: kind, Estimate: with, Model: m.Row, Key: of.Key}
	hold, on, err := p.Meter.Reserve(ctx, &terms, call, func(_ budget.Rung, c *budget.MeteredCall) bool { c.Estimate = budget.Amount{}; return true })
	switch {
	case err == nil && on == rung:
		hold.Settle(budget.Amount{})
		return nil, errNoRoom
	case err != nil && yields && errors.As(err, new(*budget.Refusal)):
		return nil, errNoRoom
	case err != nil:
		return nil, fmt.Errorf("%w: %w", retrieval.ErrNotAsked, err)
	}
	b.hold = hold
	return b, nil
}

// ended records how call i ended. It is safe for concurrent use.
func (b *bill) ended(i int, a services.LLMAnswer, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parts[i].answer, b.parts[i].err = a, err
}

// settleAfter charges the known cost of the calls as soon as waiting ends. This releases the
// budget held for the request while late answers are still read. stop cancels it.
func (b *bill) settleAfter(waiting context.Context) (stop func() bool) {
	return panics.AfterEnd(waiting, nil, func() {
		if b.hold != nil {
			sum, _ := b.sum()
			b.hold.Settle(sum)
		}
	})
}

// settle charges the cost of the calls, by their answers or errors.
func (b *bill) settle() {
	sum, told := b.sum()
	if b.all.OnUsage != nil && told > 0 {
		b.all.OnUsage(b.of.Tenant, b.kind, told)
	}
	switch {
	case b.hold != nil:
		b.hold.Settle(sum)
	case b.of.Terms != nil:
		b.all.Meter.Add(budget.MeteredCall{Tenant: b.of.Tenant, Kind: b.kind, Model: b.row, Key: b.of.Key}, sum)
	}
}

// sum returns the known cost of the calls, and told, the tokens whose number was reported or
// counted.
func (b *bill) sum() (sum budget.Amount, told int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.parts {
		part := &b.parts[i]
		counted, _ := b.counter.Count(part.answer.Text)
		used, by, _ := answer.Settlement{
			Outcome: planOutcome(part.err), Found: answer.UsageFound, Prompt: part.prompt, Longest: part.longest,
			Reported: answer.Usage{Input: part.answer.Usage.Input, Output: part.answer.Usage.Output, Known: part.answer.Usage.Known},
			Counted:  answer.CountedUsage{Output: int64(counted), Known: true},
		}.Settle()
		if by == answer.SettledAsNothing {
			continue
		}
		if by == answer.SettledAsReported || by == answer.SettledAsCounted {
			told += used.Input + used.Output
		}
		sum.Tokens = min(sum.Tokens+used.Input+used.Output, budget.MaxAmount)
		cost, err := b.prices.Cost(budget.Tokens{Input: used.Input, CachedInput: used.CachedInput, CacheWrite: used.CacheWrite, CacheWrite1h: used.CacheWrite1h, Output: used.Output})
		sum.Money = min(sum.Money+budget.Money(cost, err), budget.MaxAmount)
	}
	return sum, told
}

// planOutcome returns the outcome of a call that ended with an error of services.LLM, or nil.
func planOutcome(err error) answer.Outcome {
	if status, ok := errors.AsType[*services.StatusError](err); ok {
		return answer.OutcomeOf(status.Status, true)
	}
	switch {
	case err == nil, errors.Is(err, services.ErrNoCompletion):
		return answer.OutcomeCompleted
	case errors.Is(err, services.ErrDown), errors.Is(err, services.ErrBusy), errors.Is(err, syscall.ECONNREFUSED), errors.As(err, new(*net.DNSError)):
		return answer.OutcomeNotSent
	}
	return answer.OutcomeUnknown
}

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
		answer, err := u.API.Ask(ctx, services.LLMCall{Header: u.OwnHeader, Own: true}, prompts[i])
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
