package proxy

import (
	"encoding/json"
	"slices"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval/tools"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/model"
	"sidenote/rewrite/toolcalls"
)

// A tooling is the state of a chat whose model is offered Sidenote's tools.
type tooling struct {
	*Offering
	body   []byte
	req    *chat.Request
	policy rewrite.Policy // the caller's, with all of its bases
	call   transport.Call // of the first round
	rounds *Rounds
}

// offerTools offers the tools of the policy to the model of a chat, and returns the policy for
// rewriting the chat. If they cannot be offered, the report says why.
func (x *exchange) offerTools(body []byte, req *chat.Request, p rewrite.Policy) rewrite.Policy {
	m := x.setup.rewriter.Models.Model(req.Model)
	m.NoSystem = m.NoSystem || p.NoSystem
	o, refusal := OfferTools(req, &x.policy.Tools, m, p.Knowledge)
	switch {
	case x.setup.tools == nil:
		refusal = toolcalls.Unavailable
	case refusal == "" && x.toolsRefused(req):
		refusal = toolcalls.Refused
	}
	if refusal != "" {
		x.report.ToolsSkipped = string(refusal)
		return p
	}
	p = o.Protecting(p)
	x.tools, x.report.Tools = &tooling{Offering: o, body: body, req: req, policy: p}, new(report.Tools)
	q := p.Query(model.Model{})
	x.report.Tools.Restored = o.Restore(x.life, x.setup.tools.Turns, toolcalls.TurnOwnerOf(&q), x.Take)
	for _, given := range o.GivenSources {
		x.report.Tools.RestoreSources(given)
	}
	x.attempt.asked.LastID = o.FirstID(0) - 1
	return o.FirstSearchPolicy(o.WithRoomForRestored(p, m))
}

// converse runs the rounds of a chat, of which the first was answered, and answers the client.
func (x *exchange) converse(first *transport.Answer, call transport.Call) error {
	t, ledger := x.tools, &x.report.Rewrite.Ledger
	t.call = call
	caller := tools.NewCaller(&t.policy, x.report.Rewrite.Model)
	caller.FirstID = t.FirstID(ledger.LastID())
	x.report.Tools.StartAt(caller.FirstID)
	room := x.policy.Tools.MaxTokens
	if w := &ledger.Window; w.Size > 0 && w.Request > 0 {
		room = max(0, min(room, w.Size-w.Request-ledger.Grown()-w.ReservedOutput))
	}
	r := NewRounds(RoundsSetup{
		Host: x, Policy: t.Policy(), Offer: t.Offering, Box: x.setup.tools.Box, Caller: caller, Room: room,
		Life: x.work, Began: x.report.Time, Report: x.report.Tools,
	})
	t.rounds = r
	if isStream(first) {
		how := x.howOf(first)
		x.checker.Relay(first, &how, x)
		how.Filter, how.KeepBody = r.Through(how.Filter), true
		first.Relay(x.ctx, how)
		return nil
	}
	err := r.RelayWhole(x.ctx, first, func(answer *transport.Answer) transport.Relay {
		x.report.Tools.Ended = true
		x.keepRounds(r)
		return x.howOf(answer)
	})
	if transport.ClassOf(err) != "" {
		return x.server.transportError(err)
	}
	return err
}

// NextRound implements RoundsHost.
func (x *exchange) NextRound(messages []json.RawMessage, last bool) (*transport.Answer, error) {
	x.endRound()
	t := x.tools
	edits := t.Next(messages, last)
	of := x.demandOf(&t.policy, t.req)
	of.Injected += int64(x.report.Tools.Tokens)
	if err := x.reserveRound(of); err != nil {
		return nil, err
	}
	x.outgoing = rewrite.EditPieces(nil, t.body, x.allEdits(edits))
	x.keepBody(nil, x.outgoing)
	call := t.call
	call.Body, call.Whole, call.Same, call.Interim = x.outgoing, true, false, false
	call.Replace = append(slices.Clip(call.Replace), anotherRequest)
	answer, err := x.call(call, report.ToTools, time.Now())
	if err == nil {
		answer, err = x.retryRound(answer, call)
	}
	if err != nil {
		x.spending.Failed(err)
		return nil, err
	}
	x.readAlong(answer)
	return answer, nil
}

// reserveRound reserves budget for a further round.
func (x *exchange) reserveRound(of Demand) error { return x.reserveLater(budget.Tool, of) }

// CheckWhole implements RoundsHost.
func (x *exchange) CheckWhole(body []byte) []byte { return x.checker.Whole(body) }

// CloseRounds implements RoundsHost.
func (x *exchange) CloseRounds() string {
	x.report.Tools.Ended = true
	x.keepRounds(x.tools.rounds)
	return string(report.AppendClosing(nil, &x.report))
}

// KeepPending implements RoundsHost.
func (x *exchange) KeepPending() { x.keepRounds(x.tools.rounds) }

// RoundError implements RoundsHost.
func (x *exchange) RoundError(err error) []byte {
	if transport.ClassOf(err) != "" {
		err = x.server.transportError(err)
	}
	return tenant.AsError(err).JSON(x.target.Route.API(), x.report.IDs())
}

// endRound settles a round whose answer was read completely, before the next round.
func (x *exchange) endRound() {
	if x.reader != nil {
		x.readUsage()
		x.countText()
	}
	x.charge()
	x.endCall(time.Now())
	x.report.EndRound(&x.before)
}

// reserveLater reserves budget for a call after the first one of a request. The call counts as the
// client's request if the earlier calls did no work.
func (x *exchange) reserveLater(kind budget.Kind, of Demand) error {
	if x.metered == nil || !x.policy.Budget.Limited() {
		return nil
	}
	r := SpendRequest{Tenant: x.policy.Tenant, Key: x.report.Key, ID: x.report.ID, Kind: kind, Round: len(x.report.Calls), Counts: !x.before.Counted(), Route: x.target.Route, Body: x.metered, Row: x.row}
	s, _, err := ReserveCall(x.life, x.server.budgets, &x.policy.Budget, r, of, asItIs)
	if err != nil {
		return budgetError(x.life, err)
	}
	x.spending = s
	return nil
}
