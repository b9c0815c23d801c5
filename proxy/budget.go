package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// reserve reserves the estimated cost of a request in its tenant's budget, if that is limited. If
// there is no room, it calls cheaper for the rungs of the policy's ladder.
func (x *exchange) reserve(of Demand, cheaper func(budget.Rung) (Demand, bool)) error {
	return x.reserveKind("", of, cheaper)
}

// reserveKind is reserve for a call of that kind; "" is the kind of the route.
func (x *exchange) reserveKind(kind budget.Kind, of Demand, cheaper func(budget.Rung) (Demand, bool)) error {
	terms := &x.policy.Budget
	if !terms.Limited() {
		return nil
	}
	r := SpendRequest{Tenant: x.policy.Tenant, Key: x.report.Key, ID: x.report.ID, Kind: kind, Round: len(x.report.Calls), Counts: true, Route: x.target.Route, Body: x.metered, Row: x.row, Tier: x.tier}
	s, rung, err := ReserveCall(x.life, x.server.budgets, terms, r, of, cheaper)
	if err != nil {
		return budgetError(x.life, err)
	}
	x.spending = s
	if rung == "" && x.planner.Skipped() {
		rung = budget.NoPlanner
	}
	x.report.Budget = report.Budget{Rung: string(rung), Estimate: s.Estimate()}
	return nil
}

// asItIs is the parameter cheaper for requests without sources, which cannot be reduced.
func asItIs(budget.Rung) (Demand, bool) { return Demand{}, false }

// budgetError returns the response to a request whose reservation failed with err.
func budgetError(life context.Context, err error) error {
	if life.Err() != nil {
		return errClientGone
	}
	if refusal, ok := errors.AsType[*budget.Refusal](err); ok {
		reason := report.ReasonRateLimit
		if refusal.Quota() {
			reason = report.ReasonQuota
		}
		return &tenant.APIError{Reason: reason, Message: refusal.Error(), Refusal: refusal}
	}
	if unpriced, ok := errors.AsType[*priceError](err); ok {
		return &tenant.APIError{Reason: report.ReasonNoPrice, Param: "model", Message: fmt.Sprintf(
			"The model `%s` has no configured price and your spending is limited; use a model with a price.", tenant.Shortened(unpriced.Model))}
	}
	return &tenant.APIError{Reason: report.ReasonLedger, Message: "Your remaining limits cannot be read at the moment; try again.", Err: err}
}

// reserveRewritten reserves budget for a rewritten chat. On a rung it is rewritten again.
func (x *exchange) reserveRewritten(a *attempt) error {
	return x.reserve(x.demandOf(&a.policy, a.req), x.cheaperRewrite(a))
}

// cheaperRewrite returns the parameter cheaper of ReserveCall for a chat, which rewrites it again.
func (x *exchange) cheaperRewrite(a *attempt) func(budget.Rung) (Demand, bool) {
	res := &x.report.Rewrite
	added := res.Outcome == rewrite.Injected
	return func(r budget.Rung) (Demand, bool) {
		if !added || r == budget.NoPlanner { // the planner has been paid for, or was skipped
			return Demand{}, false
		}
		p := OnRung(a.policy, r)
		x.setup.rewriter.Rewrite(x.work, &p, a.req, &a.asked, res)
		if r == budget.NoSources {
			res.Reason = report.ReasonLimit
		}
		x.report.Outcome, x.report.Reason = res.Outcome, res.Reason
		return x.demandOf(&a.policy, a.req), res.Outcome == rewrite.Injected || res.Outcome == rewrite.Untouched
	}
}

// demandOf returns the demand of a rewritten request.
func (x *exchange) demandOf(p *rewrite.Policy, req *chat.Request) Demand {
	res := &x.report.Rewrite
	whole := int64(res.Ledger.Window.Request)
	if whole == 0 && x.metered != nil {
		whole = int64(x.setup.rewriter.Count(*p, req))
	}
	of := Demand{Prompt: whole, HasReferences: refers(req)}
	if res.Outcome == rewrite.Injected {
		of.Injected = int64(res.Ledger.Grown())
		of.Prompt += of.Injected
	}
	if x.tools != nil && x.metered != nil {
		of.Prompt += x.tools.Tokens(res.Model.Counter)
	}
	if x.continued != nil && x.metered != nil {
		of.Prompt += count(res.Model.Counter, x.continued)
	}
	x.fitAnswer(of.Prompt)
	return of
}

// refers reports whether a request may use more tokens than its own: files, earlier turns, or what
// a tool of the upstream finds.
func refers(req *chat.Request) bool { return req.Attachments > 0 || req.API != chat.Completions }

// reserveAsItIs reserves budget for a chat that is sent without sources.
func (x *exchange) reserveAsItIs(p *rewrite.Policy, req *chat.Request) error {
	of := Demand{HasReferences: refers(req)}
	if x.metered != nil {
		of.Prompt = int64(x.setup.rewriter.Count(*p, req))
		x.fitAnswer(of.Prompt)
	}
	return x.reserve(of, asItIs)
}

// reserveUnread reserves budget for a chat that cannot be read. If tokens are limited it was
// already refused.
func (x *exchange) reserveUnread() error { return x.reserve(Demand{}, asItIs) }

// reserveAnswered reserves budget for a chat that no model answers. It counts as a request, since
// it was searched for, but costs no tokens.
func (x *exchange) reserveAnswered() error {
	x.metered = nil
	err := x.reserve(Demand{}, asItIs)
	x.spending.Answered()
	return err
}

// reserveRelayed reserves budget for a request that is not rewritten. The whole body counts,
// except for embeddings, because models also read instructions, tools and suffixes.
func (x *exchange) reserveRelayed(body []byte) error {
	var of Demand
	if x.metered != nil {
		if x.target.Route == route.Embeddings {
			body = x.metered.Input()
		}
		n, _ := x.setup.rewriter.Models.Model(x.metered.ModelName()).Counter.Count(string(body))
		of.Prompt = int64(n)
		x.fitAnswer(of.Prompt)
	}
	return x.reserve(of, asItIs)
}

// checkBudgets returns an error if a tenant has limits and budgets is nil.
func checkBudgets(tenants map[string]*tenant.Policy, budgets *budget.Meter) error {
	for name, p := range tenants {
		if p.Budget.Limited() && budgets == nil {
			return fmt.Errorf("tenant %q has limits, but no budget ledger is configured", name)
		}
	}
	return nil
}

// A SpendRequest describes a request whose tenant has limits.
type SpendRequest struct {
	Tenant string
	Key    string      // name of the API key; "" if it has none
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
	Prompt        int64
	Injected      int64 // of Prompt: added by Sidenote
	HasReferences bool  // the request refers to other content, such as files, and may use more tokens

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
	call := budget.MeteredCall{Tenant: r.Tenant, ID: r.ID + ":" + strconv.Itoa(r.Round+1), Kind: kindOf(r.Route), Estimate: s.estimate(r.Body, of), Model: r.Row, Key: r.Key}
	if r.Kind != "" {
		call.Kind = r.Kind
	}
	hold, rung, err := m.Reserve(ctx, terms, call, func(rung budget.Rung, call *budget.MeteredCall) bool {
		of, ok := cheaper(rung)
		if ok && of.Body != nil {
			r.Body, call.Kind, call.Model = of.Body, kindOf(r.Route), of.Row
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
	case route.Chat, route.Completions, route.Responses, route.Compact, route.Messages:
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
	case route.Responses, route.Compact:
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
	a.Money = budget.Money(s.prices.MaxCost(budget.Demand{Input: e.Input, Output: s.longest, ForHour: body.CachesForHour()}, s.tier))
	return a
}

// Estimate returns what was reserved.
func (s *spending) Estimate() budget.Amount { return s.hold.Estimate() }

// Settle ends the reservation with the actual cost of the call and records that in the Report,
// which must be complete otherwise.
func (s *spending) Settle(r *report.Report) {
	r.Budget.Charged = s.hold.Estimate() // if the rest panics
	defer func() { s.hold.SettleModel(r.Budget.Charged, r.Model()) }()
	r.Budget.Charged = s.charge(r)
}

// ShortenRequest records that a shorter request was sent and that the first call cost nothing.
// It does nothing if s is nil.
func (s *spending) ShortenRequest(demand func() Demand) {
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

// ReplaceRequest records that the request is sent again with another body and that the first call
// cost nothing. It returns false, and records nothing, if that may cost more than is reserved.
func (s *spending) ReplaceRequest(body *rewrite.MeteredRequest, of Demand) bool {
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
		HasExternalContent: s.sent.HasReferences, Counted: r.Generated,
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
	measureContext(r, s.terms, &s.prices)
	return budget.Amount{
		Requests: e.Requests, Tokens: min(used.Input+used.Output, budget.MaxAmount), Injected: min(s.sent.Injected, used.Input),
		Money: budget.Money(cost, err),
	}
}

// UnreservedCost returns the cost of a call for which no tokens were reserved, and records its
// basis in the Report: the reported usage, or else the received text and our count of the prompt,
// if there is one. model and tier are those that the request names, as far as is known.
func UnreservedCost(terms *budget.Terms, r *report.Report, model, tier string) budget.Amount {
	known := answer.Settlement{Outcome: answer.OutcomeNotSent, Reported: r.Usage, Found: r.UsageFound, HasExternalContent: true, Counted: r.Generated}
	if status := r.UpstreamStatus(); status > 0 {
		known.Outcome = outcomeOf(r)
	} else if r.Status/100 == 2 { // Sidenote has answered
		known.Outcome = answer.OutcomeCompleted
	}
	if prompt := r.Rewrite.Ledger.Window.Request; prompt > 0 && r.UpstreamStatus() > 0 {
		known.Prompt = int64(prompt)
		if r.Rewrite.Outcome == rewrite.Injected {
			known.Prompt += int64(r.Rewrite.Ledger.Grown())
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
		a.Injected = min(int64(r.Rewrite.Ledger.Grown()), used.Input)
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
	measureContext(r, terms, &prices)
	a.Money = budget.Money(cost, err)
	return a
}

// measureContext measures what the added tokens cost at the prices of the tier in the Report. A
// model without any price has no cost.
func measureContext(r *report.Report, terms *budget.Terms, t *budget.Tariff) {
	if prices := t.Of(r.Budget.Tier); terms.Priced() && prices != (budget.Prices{}) {
		r.MeasureContext(&prices)
		return
	}
	r.MeasureContext(nil)
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
		p.Search.TopK, p.ContextTokens, p.NoRepeat = half(p.Search.TopK), half(half(p.ContextTokens)), true
	case budget.NoSources:
		p.Knowledge = nil
	}
	return p
}

// measure prepares a request for metering, if its policy asks for that. body must be complete and
// decompressed. The error refuses a body in which another server could read other limits. Counting
// tokens costs none.
func (x *exchange) measure(body []byte) error {
	if !x.policy.Metered || meteredRouteOf(x.target.Route) == rewrite.MeteredOther {
		return nil
	}
	if x.parser == nil { // on routes other than chat
		x.parser = x.server.parsers.Get().(*chat.Parser)
	}
	return x.meterBody(&x.limits, x.parser, body, x.upstream)
}

// meterBody prepares a body for metering in r, parsed by p, and sets the metering fields of x. to
// is the upstream that gets the body.
func (x *exchange) meterBody(r *rewrite.MeteredRequest, p *chat.Parser, body []byte, to *backend) error {
	if err := r.ReadBy(p, meteredRouteOf(x.target.Route), body); err != nil {
		return err
	}
	m := x.setup.rewriter.Models.Model(r.ModelName())
	r.OutputCaps = rewrite.OutputCaps{Tenant: x.policy.OutputCap, Model: cmp.Or(m.MaxOutput, m.ReservedOutput()), Default: int(x.policy.Budget.DefaultOutput()), Completion: m.CompletionCap}
	r.IncludeUsage, r.Uncapped = !to.noUsage, x.target.Route == route.Compact // which has no member for a limit
	x.avoidRefused(r, to)
	x.metered, x.row, x.window = r, m.Row, m.Window
	if x.target.Route != route.Embeddings { // embeddings answer without text
		x.counter = m.Counter
	}
	return nil
}

// fitAnswer lowers the default limit of the answer to what the prompt leaves of the context
// window, because upstreams refuse a prompt and a limit that together do not fit. If the prompt
// leaves nothing the upstream decides.
func (x *exchange) fitAnswer(prompt int64) {
	if x.metered == nil {
		return
	}
	usual := int(x.policy.Budget.DefaultOutput())
	x.metered.Default = usual
	if room := x.window - int(prompt) - numberSlack; room > 0 {
		x.metered.Default = min(cmp.Or(usual, room), room)
	}
}

// plainStreams asks for an uncompressed answer if the answer is to be edited, or its id is to be
// known at once.
func (x *exchange) plainStreams(lines []transport.Header) []transport.Header {
	if x.tools == nil && x.checker == nil && (x.chain == nil || x.attempt.policy.Mode == rewrite.Shadow && !x.chain.assigned) && (x.metered == nil || !x.metered.HidesUsage()) {
		return lines
	}
	return append(slices.Clip(lines), transport.Header{Name: fasthttp.HeaderAcceptEncoding, Value: "identity"})
}

// hideUsage removes the usage from a stream whose client did not ask for it.
func (x *exchange) hideUsage(ans *transport.Answer, how *transport.Relay) {
	if x.metered == nil || !x.metered.HidesUsage() || !x.streaming || ans.Status() != fasthttp.StatusOK ||
		!answer.PlainCoding(string(ans.Header(fasthttp.HeaderContentEncoding))) {
		return
	}
	how.Filter = func(w io.Writer) io.WriteCloser { return answer.NewUsageHider(w) }
}

// allEdits adds the edits of earlier turns, of tools and of metering to those of the rewrite, and
// records them in the ledger.
func (x *exchange) allEdits(edits []rewrite.Edit) []rewrite.Edit {
	if x.metered == nil && x.tools == nil && x.continued == nil && x.diagnosis == nil {
		return edits
	}
	switch {
	case x.tools != nil:
		edits = x.tools.AddEdits(edits, x.continued)
	case x.continued != nil:
		edits = rewrite.SortEdits(slices.Concat(edits, x.continued))
	}
	if x.metered != nil {
		if mine := x.metered.Edits(); len(mine) > 0 {
			edits = rewrite.MergeEdits(edits, mine)
		}
	}
	if x.diagnosis != nil {
		edits = rewrite.MergeEdits(edits, []rewrite.Edit{x.diagnosis.edit})
	}
	x.report.Rewrite.Ledger.Edits = edits
	x.chunks.Record(&x.report.Rewrite.Ledger)
	return edits
}

// relayMetered reads the body of a metered request that is not rewritten, and sends it.
func (x *exchange) relayMetered() error {
	body, _, err := x.readBody()
	if err != nil {
		return err
	}
	if err := x.checkModels(body); err != nil {
		return err
	}
	if err := x.measure(body); err != nil {
		return err
	}
	if err := x.reserveRelayed(body); err != nil {
		return err
	}
	return x.send(body, nil)
}
