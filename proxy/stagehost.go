package proxy

import (
	"context"
	"errors"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/apierror"
	"sidenote/proxy/meter"
	"sidenote/proxy/report"
	"sidenote/proxy/spend"
	"sidenote/proxy/stages"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/metered"
)

// A stageHost is the stages.Host of an exchange.
type stageHost struct{ *exchange }

// Call implements stages.Host.
func (x stageHost) Call(ctx context.Context, c *stages.Call) (*transport.Answer, error) {
	g, to, model := x.staging, x.upstream, ""
	if c.Stage == nil {
		edits, err := instead(x.exchange, c.Bare)
		if err != nil {
			return nil, err
		}
		x.outgoing = rewrite.Pieces(x.outgoing[:0], g.body, allEdits(x.exchange, edits))
	} else {
		if c.Stage.Upstream != "" {
			to = x.setup.upstreams[c.Stage.Upstream]
		}
		model = c.Stage.Model
		if err := makeReady(x.exchange, c, to); err != nil {
			return nil, err
		}
		var edits []rewrite.Edit
		if x.metered != nil {
			edits = x.metered.Edits()
		}
		x.outgoing = rewrite.Pieces(x.outgoing[:0], c.Body, edits)
	}
	x.keepBody(nil, x.outgoing)
	why, began := report.ToStage, time.Now()
	if c.Stage == nil {
		why = report.ToAnswer
	}
	if x.report.Overhead == 0 {
		x.report.Overhead = max(began.Sub(x.report.Time)-x.readTook, 1)
	}
	replace := headOfStage(&x.request, to, c.Stage != nil)
	answer, err := callOn(ctx, x.exchange, to, transport.Call{Head: x.head, Without: KeyPrefix, Body: x.outgoing, Whole: true, Replace: replace, Deployment: model, NoUpgrade: true}, why, began)
	if err != nil {
		x.spending.Failed(err)
		return nil, err
	}
	x.readAlong(answer)
	return answer, nil
}

// makeReady settles the call before, and reserves for a stage.
func makeReady(x *exchange, c *stages.Call, to *backend) error {
	g := x.staging
	if !c.Again {
		settleStage(x)
	}
	if g.metered != nil {
		r := new(metered.Request)
		if err := meterBody(x, r, new(rewrite.Parser), c.Body, to); err != nil {
			return unmade(err)
		}
	}
	if c.Again {
		x.spending.SentAgain(func() spend.Demand { return demandOfStage(x, c) })
		return nil
	}
	var err error
	if g.made > 0 {
		err = reserveLater(x, budget.Stage, demandOfStage(x, c))
	} else {
		err = reserveKind(x, budget.Stage, demandOfStage(x, c), func(r meter.Rung) (spend.Demand, bool) { return stageOnRung(x, c, to, r) })
	}
	if err != nil {
		g.lowered = false // no rung had room
		return unmade(err)
	}
	if g.made++; g.lowered {
		x.report.Stages = nil // there are none
		return stages.ErrLowered
	}
	return nil
}

// stageOnRung makes the first stage's request cheaper, or leaves stages out.
func stageOnRung(x *exchange, c *stages.Call, to *backend, r meter.Rung) (spend.Demand, bool) {
	g, res := x.staging, &x.report.Rewrite
	if r == meter.NoStages {
		g.lowered, g.policy.Mode = true, rewrite.Inject
		x.metered = g.metered
		if x.metered != nil && measure(x, g.body) != nil {
			return spend.Demand{}, false
		}
	} else {
		if res.Outcome != rewrite.Injected || r == meter.NoPlanner {
			return spend.Demand{}, false
		}
		*res = x.setup.rewriter.Rewrite(x.life, spend.OnRung(g.policy, r), g.req.Request, g.asked)
		if r == meter.NoSources {
			res.Reason = report.ReasonLimit
		}
		x.report.Reason = res.Reason
	}
	if g.lowered {
		of := demandOf(x, &g.policy, g.req.Request)
		of.Body, of.Row = x.metered, x.row
		return of, true
	}
	c.Make(res.Block)
	if x.metered != nil && meterBody(x, x.metered, new(rewrite.Parser), c.Body, to) != nil {
		return spend.Demand{}, false
	}
	return demandOfStage(x, c), true
}

// demandOfStage is what a stage takes.
func demandOfStage(x *exchange, c *stages.Call) spend.Demand {
	var of spend.Demand
	if x.metered == nil {
		return of
	}
	req, err := rewrite.Parse(c.Body)
	if err != nil {
		panic("BUG: the request of a stage is none: " + err.Error())
	}
	of.Prompt = int64(x.setup.rewriter.Count(x.staging.policy, req))
	of.Injected = min(int64(x.report.Rewrite.Ledger.Used), of.Prompt)
	fitAnswer(x, of.Prompt)
	return of
}

// unmade says what becomes of a stage that may not be called.
func unmade(err error) error {
	refusal, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	outcome := report.StageBudget
	switch refusal.Reason {
	case report.ReasonNoPrice:
		outcome = report.StageUnpriced
	case report.ReasonLedger:
		outcome = report.StageUnsettled
	}
	return &stages.Unmade{Outcome: outcome, Err: err}
}

// Shorter implements stages.Host.
func (x stageHost) Shorter(answer *transport.Answer) ([]byte, bool) {
	g := x.staging
	t, ok := refusedAsTooLong(answer)
	if !ok || x.report.Rewrite.Outcome != rewrite.Injected {
		return nil, false
	}
	again := attempt{g.body, g.req.Request, g.policy, g.asked}
	res, ok := again.shorter(x.life, x.setup.rewriter, x.report.Rewrite.Ledger.Used, t)
	if !ok {
		return nil, false
	}
	x.report.Rewrite, x.report.Reason = res, res.Reason
	return res.Block, true
}

// stageError is what a client gets for a stage that failed, or for what took its place.
func stageError(x *exchange, err error) *Error {
	if refusal, ok := errors.AsType[*Error](err); ok {
		return refusal
	}
	failed, ok := errors.AsType[*stages.Error](err)
	if !ok {
		return apierror.As(x.server.transportError(err))
	}
	reason := report.ReasonStage
	if failed.Stage.Outcome == report.StageTimeout {
		reason = report.ReasonStageTimeout
	}
	if failed.Stage.Outcome == report.StageRefused { // as it would be once more
		return &Error{Reason: reason, Message: failed.Error(), Err: failed.Err, Final: true}
	}
	return &Error{Reason: reason, Message: failed.Error() + " Try again.", Wait: failed.Wait, Err: failed.Err}
}
