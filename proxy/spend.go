package proxy

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

// A SpendRequest describes a request whose tenant has limits.
type SpendRequest struct {
	Tenant string
	ID     string      // of the request; unique
	Round  int         // index of the upstream call; only the first, 0, counts as a request of the client
	Counts bool        // count this call as the client's request, as the earlier calls did no work
	Kind   budget.Kind // "": the kind of the route
	Route  route.Kind
	Body   *rewrite.MeteredRequest // nil on routes whose answers have no tokens
	Row    string                  // row of the model table for the model that Body names
	Tier   string                  // service_tier of a request without Body
}

// A Demand is the token demand of a request as it would be sent.
type Demand struct {
	Prompt   int64
	Injected int64 // of Prompt: added by Sidenote
	Refers   bool  // the request refers to other content, such as files, and may use more tokens

	// Body and Row replace those of the SpendRequest, if cheaper replaced the request by another
	// one.
	Body *rewrite.MeteredRequest
	Row  string
}

// A spending is the budget reservation of a request. Settle ends it.
type spending struct {
	hold    *budget.Hold
	terms   *budget.Terms
	ended   answer.Outcome // how the call ended if the upstream did not answer
	prices  budget.Tariff
	tier    string // service_tier of the request
	sent    Demand // of the request, as it was sent
	later   bool   // does not count as a request; see SpendRequest.Round
	longest int64  // most output tokens of all its answers
}

// A priceError reports that money is limited and the price of a model is unknown.
type priceError struct{ Model string }

// Error names the model.
func (e *priceError) Error() string { return fmt.Sprintf("no price for model %.128q", e.Model) }

// ReserveCall reserves the estimated cost of a request. If the budget has no room, it calls
// cheaper for the rungs of the ladder; cheaper reduces the request and returns its new demand, or
// false if the rung changes nothing. The request must be sent as cheaper left it. The error is a
// *priceError, a *budget.Refusal, or an error of the ledger.
func ReserveCall(ctx context.Context, m *budget.Meter, terms *budget.Terms, r SpendRequest, of Demand, cheaper func(budget.Rung) (Demand, bool)) (*spending, budget.Rung, error) {
	s := &spending{terms: terms, tier: r.Tier}
	var err error
	if r.Body != nil {
		name := r.Body.ModelName()
		if s.prices, err = terms.PricesOf(name, r.Row); err != nil {
			return nil, "", &priceError{name}
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

// estimateCall returns the most that a request can cost, zero if that is unknown.
func estimateCall(terms *budget.Terms, r SpendRequest, of Demand) budget.Amount {
	s := new(spending)
	if r.Body == nil {
		return budget.Amount{}
	}
	var err error
	if s.prices, err = terms.PricesOf(r.Body.ModelName(), r.Row); err != nil {
		return budget.Amount{} // ReserveCall refuses the request for that
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

// meteredRouteOf returns the rewrite.MeteredRoute of a route.
func meteredRouteOf(r route.Kind) rewrite.MeteredRoute {
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

// estimate returns the most that a request can cost.
func (s *spending) estimate(body *rewrite.MeteredRequest, of Demand) budget.Amount {
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
	a.Money = budget.Money(s.prices.MaxCost(e.Input, s.longest, s.tier))
	return a
}

// Estimate returns what was reserved.
func (s *spending) Estimate() budget.Amount { return s.hold.Estimate() }

// Settle ends the reservation with the actual cost of the call and records that in the Report,
// which must be complete otherwise.
func (s *spending) Settle(r *report.Report) {
	r.Budget.Charged = s.hold.Estimate() // if the rest panics
	defer func() { s.hold.Settle(r.Budget.Charged) }()
	r.Budget.Charged = s.charge(r)
}

// SentAgain records that a shorter request was sent and that the first call cost nothing.
// It does nothing if s is nil.
func (s *spending) SentAgain(demand func() Demand) {
	if s != nil {
		s.sent = demand()
	}
}

// Sent returns the demand of the request as it was last sent, zero if s is nil.
func (s *spending) Sent() Demand {
	if s == nil {
		return Demand{}
	}
	return s.sent
}

// SentAnew records that the request is sent again with another body and that the first call cost
// nothing. It returns false, and records nothing, if that may cost more than is reserved.
func (s *spending) SentAnew(body *rewrite.MeteredRequest, of Demand) bool {
	was, longest, held := s.sent, s.longest, s.hold.Estimate()
	if e := s.estimate(body, of); e.Tokens > held.Tokens || e.Injected > held.Injected || e.Money > held.Money {
		s.sent, s.longest = was, longest
		return false
	}
	return true
}

// Failed records that a call ended with an error of package transport, without an answer. It
// does nothing if s is nil.
func (s *spending) Failed(err error) {
	if s != nil {
		s.ended = sentOf(err)
	}
}

// Answered records that the request is answered without a call. It does nothing if s is nil.
func (s *spending) Answered() {
	if s != nil {
		s.ended = answer.OutcomeCompleted
	}
}

// NeedsText reports whether Settle will use r.Generated. The rest of r must be complete.
func (s *spending) NeedsText(r *report.Report) bool {
	return s.hold.Estimate().Tokens > 0 && s.settlement(r).NeedsText()
}

// settlement returns what is known of the ended call.
func (s *spending) settlement(r *report.Report) answer.Settlement {
	outcome := s.ended
	if r.UpstreamStatus() > 0 {
		outcome = outcomeOf(r)
	}
	return answer.Settlement{
		Outcome: outcome, Reported: r.Usage, Found: r.UsageFound, Prompt: s.sent.Prompt, Longest: s.longest,
		HasExternalContent: s.sent.Refers, Counted: r.Generated,
	}
}

// outcomeOf returns the outcome of a call that was answered.
func outcomeOf(r *report.Report) answer.Outcome {
	return answer.OutcomeOf(r.UpstreamStatus(), r.Client == report.ClientCompleted && !r.Truncated && r.Outcome != report.Failed)
}

// charge returns the amount to charge for the call.
func (s *spending) charge(r *report.Report) budget.Amount {
	e, known := s.hold.Estimate(), s.settlement(r)
	if e.Tokens == 0 { // only requests count
		if r.UpstreamStatus() == 0 { // no usage was reported, or nothing was used
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
	cost, tier, err := s.prices.Cost(tokensOf(used), budget.Tier{Requested: s.tier, Reported: r.Answered.Tier})
	r.Budget.Tier = tier
	return budget.Amount{
		Requests: e.Requests, Tokens: min(used.Input+used.Output, budget.MaxAmount), Injected: min(s.sent.Injected, used.Input),
		Money: budget.Money(cost, err),
	}
}

// Taken returns the cost of a call for which no tokens were reserved, and records its basis in the
// Report: the reported usage, or else the received text and our count of the prompt, if there is
// one. model and tier are those that the request names, as far as is known.
func Taken(terms *budget.Terms, r *report.Report, model, tier string) budget.Amount {
	known := answer.Settlement{Outcome: answer.OutcomeNotSent, Reported: r.Usage, Found: r.UsageFound, HasExternalContent: true, Counted: r.Generated}
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
	if err != nil { // nothing is reserved on this route, so its models need no price
		return a
	}
	cost, tier, err := prices.Cost(tokensOf(used), budget.Tier{Requested: asked, Reported: r.Answered.Tier})
	r.Budget.Tier = tier
	a.Money = budget.Money(cost, err)
	return a
}

// tokensOf converts usage to the form that prices take.
func tokensOf(u answer.Usage) budget.Tokens {
	return budget.Tokens{Input: u.Input, CachedInput: u.CachedInput, CacheWrite: u.CacheWrite, CacheWrite1h: u.CacheWrite1h, Output: u.Output}
}

// KindOf returns the budget kind of a request's last call.
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

// sentOf returns the outcome of a call that ended with an error of package transport.
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

// OnRung returns p with fewer sources, as rung r asks for.
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
