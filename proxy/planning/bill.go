package planning

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"sidenote/cache/budget"
	"sidenote/cache/budget/price"
	"sidenote/proxy/meter"
	"sidenote/proxy/usage"
	"sidenote/retrieval"
	"sidenote/retrieval/llm"
	"sidenote/retrieval/remote"
	"sidenote/rewrite"
)

// overhead is what the form of a chat adds to the text of its messages, in tokens.
const overhead = 16

// A bill is what one call of a model takes.
type bill struct {
	planner  *Planner
	counter  retrieval.Counter
	hold     *meter.Hold // nil where no tokens are limited
	prices   price.Prices
	prompt   int64 // tokens
	longest  int64 // tokens of the answer
	estimate budget.Amount
}

// reserve reserves for a call, and as much as the request itself takes: a plan must not be the
// reason why the request has no room any more. That part is given back with the rest when the
// call has ended. Where there is no room for both, the error wraps retrieval.ErrNotAsked, and the
// *meter.Refusal where the ladder does not let the planner give way.
func (p *Planner) reserve(ctx context.Context, name string, m rewrite.Model, prompt llm.Prompt) (*bill, error) {
	n, _ := m.Counter.Count(prompt.Text)
	b := &bill{planner: p, counter: m.Counter, prompt: int64(n) + overhead, longest: int64(prompt.Output)}
	if p.all.Meter == nil || p.of.Terms == nil || !p.of.Terms.Tokens() {
		return b, nil
	}
	var err error
	if b.prices, err = p.of.Terms.PricesOf(name, m.Row); err != nil {
		return nil, fmt.Errorf("%w: %w", retrieval.ErrNotAsked, err)
	}
	b.estimate = budget.Amount{Tokens: b.prompt + b.longest, Money: meter.Money(b.prices.Most(b.prompt, b.longest))}
	terms, with := *p.of.Terms, b.estimate
	with.Tokens = min(with.Tokens+p.of.Bare.Tokens, budget.MaxAmount)
	with.Money = min(with.Money+p.of.Bare.Money, budget.MaxAmount)
	yields := slices.Contains(terms.Ladder, meter.NoPlanner)
	if terms.Ladder = nil; yields {
		terms.Ladder = []meter.Rung{meter.NoPlanner}
	}
	call := meter.Call{Tenant: p.of.Tenant, ID: p.of.ID + ":planner", Kind: budget.Planner, Estimate: with}
	hold, rung, err := p.all.Meter.Reserve(ctx, &terms, call, func(meter.Rung) (budget.Amount, bool) { return budget.Amount{}, true })
	switch {
	case err == nil && rung == meter.NoPlanner:
		hold.Settle(budget.Amount{})
		return nil, errNoRoom
	case err != nil && yields && errors.As(err, new(*meter.Refusal)):
		return nil, errNoRoom
	case err != nil:
		return nil, fmt.Errorf("%w: %w", retrieval.ErrNotAsked, err)
	}
	b.hold = hold
	return b, nil
}

// settle charges what the call took by its answer or error.
func (b *bill) settle(a llm.Answer, err error) {
	counted, _ := b.counter.Count(a.Text)
	used, by, _ := usage.Settlement{
		Outcome: outcomeOf(err), Found: usage.Found, Prompt: b.prompt, Longest: b.longest,
		Told:    usage.Usage{Input: a.Usage.Input, Output: a.Usage.Output, Known: a.Usage.Known},
		Counted: usage.Counted{Output: int64(counted), Known: true},
	}.Settle()
	if tell := b.planner.all.Used; tell != nil && (by == usage.AsTold || by == usage.AsCounted) {
		tell(b.planner.of.Tenant, used.Input+used.Output)
	}
	switch {
	case b.hold == nil:
	case by == usage.AsNothing:
		b.hold.Settle(budget.Amount{})
	default:
		cost, err := b.prices.Cost(used.Input, used.CachedInput, used.Output)
		b.hold.Settle(budget.Amount{Tokens: min(used.Input+used.Output, budget.MaxAmount), Money: meter.Money(cost, err)})
	}
}

// outcomeOf tells how far a call came that ended with an error of llm.Client, or nil.
func outcomeOf(err error) usage.Outcome {
	if status, ok := errors.AsType[*remote.StatusError](err); ok {
		return usage.OutcomeOf(status.Status, true)
	}
	switch {
	case err == nil, errors.Is(err, llm.ErrNoCompletion):
		return usage.Completed
	case errors.Is(err, remote.ErrDown), errors.Is(err, remote.ErrBusy), errors.Is(err, syscall.ECONNREFUSED), errors.As(err, new(*net.DNSError)):
		return usage.NotSent
	}
	return usage.Unknown
}
