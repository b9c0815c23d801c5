// Package spend says what a request takes of its tenant's budget: it reserves that before the
// request is sent, on the rung of the policy's ladder that has room, and settles it when the
// answer has ended.
package spend

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// A Request is what is known of a request whose tenant has limits.
type Request struct {
	Tenant string
	ID     string      // of the request; unique
	Round  int         // behind the first call of the request, of which the later ones are no requests of the client; 0 for the first
	Counts bool        // it is the client's request all the same, as the calls before did nothing
	Kind   budget.Kind // "": that of the route
	Route  route.Kind
	Body   *rewrite.MeteredRequest // nil on routes whose answers have no tokens
	Row    string                  // of the model table, for the model that Body names
	Tier   string                  // service_tier of a request without Body
}

// A Demand is what a request takes, as it would be sent, in tokens.
type Demand struct {
	Prompt   int64
	Injected int64 // of Prompt: added by Sidenote
	Refers   bool  // to what is not in it, such as files, so that it may take more

	// Body and Row are those of another request that cheaper puts in place of the one that Reserve got.
	Body *rewrite.MeteredRequest
	Row  string
}

// A Spending is what a request has reserved. Settle ends it.
type Spending struct {
	hold    *budget.Hold
	terms   *budget.Terms
	ended   answer.Outcome // how far the call came if the upstream did not answer
	prices  budget.Tariff
	tier    string // service_tier that the request asks for
	sent    Demand // of the request, as it was sent
	later   bool   // it is no request of the client; see Request.Round
	longest int64  // tokens of all its answers at most
}

// A PriceError says that money is limited and nobody knows what a model costs.
type PriceError struct{ Model string }

// Error names the model.
func (e *PriceError) Error() string { return fmt.Sprintf("no price for model %.128q", e.Model) }

// Reserve reserves what a request takes. If there is no room, cheaper makes it cheaper by a
// rung of the ladder and returns what it takes then, false where the rung changes nothing. The
// request is to be sent as cheaper left it. The error is a *PriceError, a *budget.Refusal, or
// that of the ledger.
func Reserve(ctx context.Context, m *budget.Meter, terms *budget.Terms, r Request, of Demand, cheaper func(budget.Rung) (Demand, bool)) (*Spending, budget.Rung, error) {
	s := &Spending{terms: terms, tier: r.Tier}
	var err error
	if r.Body != nil {
		name := r.Body.ModelName()
		if s.prices, err = terms.PricesOf(name, r.Row); err != nil {
			return nil, "", &PriceError{name}
		}
	}
	s.later = r.Round > 0 && !r.Counts
	call := budget.MeteredCall{Tenant: r.Tenant, ID: r.ID + ":" + strconv.Itoa(r.Round+1), Kind: kindOf(r.Route), Estimate: s.estimate(r.Body, of)}
	if r.Kind != "" {
		call.Kind = r.Kind
	}
	hold, rung, err := m.Reserve(ctx, terms, call, func(rung budget.Rung, call *budget.MeteredCall) bool {
		of, ok := cheaper(rung)
		if ok && of.Body != nil {
			r.Body, call.Kind = of.Body, kindOf(r.Route)
			s.prices, err = terms.PricesOf(of.Body.ModelName(), of.Row)
			ok = err == nil
		}
		if ok {
			call.Estimate = s.estimate(r.Body, of)
		}
		return ok
	})
	s.hold = hold
	return s, rung, err
}

// Estimate returns what a request takes at most; nothing where that is not known.
func Estimate(terms *budget.Terms, r Request, of Demand) budget.Amount {
	s := new(Spending)
	if r.Body == nil {
		return budget.Amount{}
	}
	var err error
	if s.prices, err = terms.PricesOf(r.Body.ModelName(), r.Row); err != nil {
		return budget.Amount{} // it is refused for that
	}
	return s.estimate(r.Body, of)
}

func kindOf(r route.Kind) budget.Kind {
	switch r {
	case route.Chat, route.Completions, route.Responses, route.Messages:
		return budget.Chat
	case route.Embeddings:
		return budget.Embedding
	}
	return budget.Other
}

// RouteOf returns what a metered request may use on a route.
func RouteOf(r route.Kind) rewrite.MeteredRoute {
	switch r {
	case route.Chat:
		return rewrite.MeteredChat
	case route.Completions:
		return rewrite.MeteredCompletions
	case route.Responses:
		return rewrite.MeteredResponses
	case route.Messages:
		return rewrite.MeteredMessages
	case route.Embeddings:
		return rewrite.MeteredEmbeddings
	}
	return rewrite.MeteredOther
}

// estimate is what a request takes at most.
func (s *Spending) estimate(body *rewrite.MeteredRequest, of Demand) budget.Amount {
	a := budget.Amount{Requests: 1}
	if s.later {
		a.Requests = 0
	}
	if body == nil {
		return a
	}
	e := body.Estimate(of.Prompt)
	s.tier = body.ServiceTier()
	s.sent, s.longest = of, min(e.Output, budget.MaxAmount/2)
	a.Tokens, a.Injected = min(e.Input+s.longest, budget.MaxAmount), of.Injected
	a.Money = budget.Money(s.prices.Most(e.Input, s.longest, s.tier))
	return a
}

// Estimate returns what was reserved.
func (s *Spending) Estimate() budget.Amount { return s.hold.Estimate() }

// Settle ends the reservation by what the call took, and notes that in the Report, which is
// whole but for that.
func (s *Spending) Settle(r *report.Report) {
	r.Budget.Charged = s.hold.Estimate() // if the rest panics
	defer func() { s.hold.Settle(r.Budget.Charged) }()
	r.Budget.Charged = s.charge(r)
}

// SentAgain notes that the request was sent once more, shorter: its first call took nothing.
// It does nothing if s is nil.
func (s *Spending) SentAgain(demand func() Demand) {
	if s != nil {
		s.sent = demand()
	}
}

// Sent returns what the request takes as it was sent last; nothing if s is nil.
func (s *Spending) Sent() Demand {
	if s == nil {
		return Demand{}
	}
	return s.sent
}

// SentAnew notes that the request is sent once more, with another body, and that its first call took
// nothing. It returns false, and notes nothing, if that may take more than is reserved.
func (s *Spending) SentAnew(body *rewrite.MeteredRequest, of Demand) bool {
	was, longest, held := s.sent, s.longest, s.hold.Estimate()
	if e := s.estimate(body, of); e.Tokens > held.Tokens || e.Injected > held.Injected || e.Money > held.Money {
		s.sent, s.longest = was, longest
		return false
	}
	return true
}

// Failed notes that a call ended with an error of package transport, without an answer. It
// does nothing if s is nil.
func (s *Spending) Failed(err error) {
	if s != nil {
		s.ended = sentOf(err)
	}
}

// Answered notes that the request is answered without a call. It does nothing if s is nil.
func (s *Spending) Answered() {
	if s != nil {
		s.ended = answer.OutcomeCompleted
	}
}

// NeedsText tells whether Settle will look at r.Generated. The rest of r is whole.
func (s *Spending) NeedsText(r *report.Report) bool {
	return s.hold.Estimate().Tokens > 0 && s.settlement(r).NeedsText()
}

// settlement is what is known of the call, which has ended.
func (s *Spending) settlement(r *report.Report) answer.Settlement {
	outcome := s.ended
	if r.UpstreamStatus() > 0 {
		outcome = outcomeOf(r)
	}
	return answer.Settlement{
		Outcome: outcome, Told: r.Usage, Found: r.UsageFound, Prompt: s.sent.Prompt, Longest: s.longest,
		Refers: s.sent.Refers, Counted: r.Generated,
	}
}

// outcomeOf tells how far a call came that was answered.
func outcomeOf(r *report.Report) answer.Outcome {
	return answer.OutcomeOf(r.UpstreamStatus(), r.Client == report.ClientCompleted && !r.Truncated && r.Outcome != report.Failed)
}

// charge returns what the call is charged.
func (s *Spending) charge(r *report.Report) budget.Amount {
	e, known := s.hold.Estimate(), s.settlement(r)
	if e.Tokens == 0 { // only requests count
		if r.UpstreamStatus() == 0 { // nobody tells what was used, or nothing was
			known = answer.Settlement{Outcome: known.Outcome}
		}
		taken := taken(s.terms, r, known, "", s.tier)
		taken.Requests = min(taken.Requests, e.Requests)
		return taken
	}
	used, by, implausible := known.Settle()
	r.Budget.By, r.Budget.Implausible = by, implausible
	if by == answer.SettledAsNothing {
		return budget.Amount{}
	}
	cost, tier, err := s.prices.Cost(tokensOf(used), budget.Tier{Asked: s.tier, Told: r.Answered.Tier})
	r.Budget.Tier = tier
	return budget.Amount{
		Requests: e.Requests, Tokens: min(used.Input+used.Output, budget.MaxAmount), Injected: min(s.sent.Injected, used.Input),
		Money: budget.Money(cost, err),
	}
}

// Taken returns what a call took for which no tokens were reserved, and notes in the Report what
// that rests on: what its answer tells, or else the text that came and our count of the prompt, if
// there is one. model and tier are those that the request names, as far as is known.
func Taken(terms *budget.Terms, r *report.Report, model, tier string) budget.Amount {
	known := answer.Settlement{Outcome: answer.OutcomeNotSent, Told: r.Usage, Found: r.UsageFound, Refers: true, Counted: r.Generated}
	if status := r.UpstreamStatus(); status > 0 {
		known.Outcome = outcomeOf(r)
	} else if r.Status/100 == 2 { // Sidenote has answered
		known.Outcome = answer.OutcomeCompleted
	}
	if prompt := r.Rewrite.Ledger.Window.Request; prompt > 0 && r.UpstreamStatus() > 0 {
		known.Prompt = int64(prompt)
		if r.Rewrite.Outcome == rewrite.Injected {
			known.Prompt += int64(r.Rewrite.Ledger.Used)
		}
	}
	return taken(terms, r, known, model, tier)
}

func taken(terms *budget.Terms, r *report.Report, known answer.Settlement, model, asked string) budget.Amount {
	used, by, _ := known.Settle()
	r.Budget.By = by
	if by == answer.SettledAsNothing {
		if known.Outcome == answer.OutcomeNotSent || known.Outcome == answer.OutcomeRefused {
			return budget.Amount{}
		}
		return budget.Amount{Requests: 1}
	}
	a := budget.Amount{Requests: 1, Tokens: min(used.Input+used.Output, budget.MaxAmount)}
	if r.Rewrite.Outcome == rewrite.Injected {
		a.Injected = min(int64(r.Rewrite.Ledger.Used), used.Input)
	}
	if a.Tokens == 0 {
		return a
	}
	prices, err := terms.PricesOf(model, r.Model(), r.Answered.Model)
	if err != nil { // of a route on which nothing is reserved, so that its models need no price
		return a
	}
	cost, tier, err := prices.Cost(tokensOf(used), budget.Tier{Asked: asked, Told: r.Answered.Tier})
	r.Budget.Tier = tier
	a.Money = budget.Money(cost, err)
	return a
}

// tokensOf returns what an answer used as prices take it.
func tokensOf(u answer.Usage) budget.Tokens {
	return budget.Tokens{Input: u.Input, CachedInput: u.CachedInput, CacheWrite: u.CacheWrite, CacheWrite1h: u.CacheWrite1h, Output: u.Output}
}

// KindOf returns what the last call of a request is counted as.
func KindOf(r *report.Report) budget.Kind {
	if n := len(r.Calls); n > 0 {
		switch r.Calls[n-1].Purpose {
		case report.ToStage:
			return budget.Stage
		case report.ToTools:
			return budget.Tool
		}
	}
	return kindOf(r.Route)
}

// sentOf tells how far a call came that ended with an error of package transport.
func sentOf(err error) answer.Outcome {
	if errors.Is(err, transport.ErrUnsent) {
		return answer.OutcomeNotSent
	}
	switch transport.ClassOf(err) {
	case transport.ConnectFailed, transport.TLSFailed, transport.ConnectTimeout, transport.BadTarget, transport.NoRoom:
		return answer.OutcomeNotSent
	case transport.ClientGone, transport.ClientSlow, transport.ClientLate, transport.ClientBody:
		return answer.OutcomeLeft
	}
	return answer.OutcomeUnknown
}

// OnRung is a policy with less to add to a request.
func OnRung(p rewrite.Policy, r budget.Rung) rewrite.Policy {
	half := func(n int) int { return max(1, (n+1)/2) }
	switch r {
	case budget.FewerSources:
		p.Search.TopK, p.ContextTokens = half(p.Search.TopK), half(p.ContextTokens)
	case budget.ShorterSources:
		p.Search.TopK, p.ContextTokens = half(p.Search.TopK), half(half(p.ContextTokens))
	case budget.NoSources:
		p.Knowledge = nil
	}
	return p
}
