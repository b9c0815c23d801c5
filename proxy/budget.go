package proxy

import (
	"context"
	"errors"
	"fmt"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
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
	r := SpendRequest{Tenant: x.policy.Tenant, ID: x.report.ID, Kind: kind, Round: len(x.report.Calls), Counts: true, Route: x.target.Route, Body: x.metered, Row: x.row, Tier: x.tier}
	s, rung, err := ReserveCall(x.life, x.server.budgets, terms, r, of, cheaper)
	if err != nil {
		return budgetError(x.life, err)
	}
	x.spending = s
	if rung == "" && x.planner.GaveWay() {
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
			"The model `%s` has no price here and your spending is limited; use a model that has a price.", tenant.Shortened(unpriced.Model))}
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
		*res = x.setup.rewriter.Rewrite(x.life, OnRung(a.policy, r), a.req, a.asked)
		if r == budget.NoSources {
			res.Reason = report.ReasonLimit
		}
		x.report.Outcome, x.report.Reason = res.Outcome, res.Reason
		return x.demandOf(&a.policy, a.req), res.Outcome == rewrite.Injected || res.Outcome == rewrite.Untouched
	}
}

// demandOf returns the demand of a rewritten request.
func (x *exchange) demandOf(p *rewrite.Policy, req *rewrite.Request) Demand {
	res := &x.report.Rewrite
	whole := int64(res.Ledger.Window.Request)
	if whole == 0 && x.metered != nil {
		whole = int64(x.setup.rewriter.Count(*p, req))
	}
	of := Demand{Prompt: whole, Refers: req.Attachments > 0}
	if res.Outcome == rewrite.Injected {
		of.Injected = int64(res.Ledger.Used)
		of.Prompt += of.Injected
	}
	if x.tools != nil && x.metered != nil {
		of.Prompt += x.tools.Tokens(res.Model.Counter)
	}
	x.fitAnswer(of.Prompt)
	return of
}

// reserveAsItIs reserves budget for a chat that is sent without sources.
func (x *exchange) reserveAsItIs(p *rewrite.Policy, req *rewrite.Request) error {
	of := Demand{Refers: req.Attachments > 0}
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
// except for embeddings, because models also read instructions, tools and suffixes. A response may
// continue an earlier one, and like a message may search by itself.
func (x *exchange) reserveRelayed(body []byte) error {
	of := Demand{Refers: x.target.Route == route.Responses || x.target.Route == route.Messages}
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
			return fmt.Errorf("tenant %q has limits, and there is no ledger", name)
		}
	}
	return nil
}
