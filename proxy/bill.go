package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/panics"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
)

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
func (p *Planners) reserve(ctx context.Context, of *PlanRequest, kind budget.Kind, before int, name string, m rewrite.Model, prompts ...services.Prompt) (*bill, error) {
	b := &bill{all: p, of: of, kind: kind, counter: m.Counter}
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
	with := budget.Amount{Tokens: of.Bare.Tokens, Money: of.Bare.Money}
	for i := range b.parts {
		part := &b.parts[i]
		with.Tokens = min(with.Tokens+part.prompt+part.longest, budget.MaxAmount)
		with.Money = min(with.Money+budget.Money(b.prices.MaxCost(part.prompt, part.longest)), budget.MaxAmount)
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
	call := budget.MeteredCall{Tenant: of.Tenant, ID: id, Kind: kind, Estimate: with}
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
	if b.all.Used != nil && told > 0 {
		b.all.Used(b.of.Tenant, b.kind, told)
	}
	switch {
	case b.hold != nil:
		b.hold.Settle(sum)
	case b.of.Terms != nil:
		b.all.Meter.Add(b.of.Tenant, b.kind, sum)
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
