package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
)

// callStage settles the previous call of a chat in stages, whose answer was read, and makes the next
// one. The error is a *transport.Error, an *Unmade, errLowered, or an error to answer the client with.
func (x *exchange) callStage(ctx context.Context, c *stageCall) (*transport.Answer, error) {
	g, to, model := x.staging, x.upstream, ""
	if c.Stage == nil {
		edits, err := x.instead(c.Bare)
		if err != nil {
			return nil, err
		}
		x.outgoing = rewrite.EditPieces(x.outgoing[:0], g.body, x.allEdits(edits))
	} else {
		if c.Stage.Upstream != "" {
			to = x.setup.upstreams[c.Stage.Upstream]
		}
		model = c.Stage.Model
		if err := x.makeReady(c, to); err != nil {
			return nil, err
		}
		var edits []rewrite.Edit
		if x.metered != nil {
			edits = x.metered.Edits()
		}
		x.outgoing = rewrite.EditPieces(x.outgoing[:0], c.Body, edits)
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
	answer, err := x.callOn(ctx, to, transport.Call{Head: x.head, Without: tenant.KeyPrefix, Body: x.outgoing, Whole: true, Replace: replace, Deployment: model, NoUpgrade: true}, why, began)
	if err != nil {
		x.spending.Failed(err)
		return nil, err
	}
	x.readAlong(answer)
	return answer, nil
}

// makeReady settles the previous call and reserves budget for a stage.
func (x *exchange) makeReady(c *stageCall, to *backend) error {
	g := x.staging
	if !c.Again {
		x.settleStage()
	}
	if g.metered != nil {
		r := new(rewrite.MeteredRequest)
		if err := x.meterBody(r, new(rewrite.Parser), c.Body, to); err != nil {
			return unmade(err)
		}
		r.OutputCaps.Completion = r.OutputCaps.Completion || c.Model.CompletionCap
	}
	if c.Again {
		x.spending.SentAgain(func() Demand { return x.demandOfStage(c) })
		return nil
	}
	var err error
	if g.made > 0 {
		err = x.reserveLater(budget.Stage, x.demandOfStage(c))
	} else {
		err = x.reserveKind(budget.Stage, x.demandOfStage(c), func(r budget.Rung) (Demand, bool) { return x.stageOnRung(c, to, r) })
	}
	if err != nil {
		g.lowered = false // no rung had room
		return unmade(err)
	}
	if g.made++; g.lowered {
		x.report.Stages = nil // no stage was called
		return errLowered
	}
	return nil
}

// stageOnRung reduces the first stage's request on a rung, or leaves out all stages.
func (x *exchange) stageOnRung(c *stageCall, to *backend, r budget.Rung) (Demand, bool) {
	g, res := x.staging, &x.report.Rewrite
	if r == budget.NoStages {
		g.lowered, g.policy.Mode = true, rewrite.Inject
		x.metered = g.metered
		if x.metered != nil && x.measure(g.body) != nil {
			return Demand{}, false
		}
	} else {
		if res.Outcome != rewrite.Injected || r == budget.NoPlanner {
			return Demand{}, false
		}
		*res = x.setup.rewriter.Rewrite(x.life, OnRung(g.policy, r), g.req.Request, g.asked)
		if r == budget.NoSources {
			res.Reason = report.ReasonLimit
		}
		x.report.Reason = res.Reason
	}
	if g.lowered {
		of := x.demandOf(&g.policy, g.req.Request)
		of.Body, of.Row = x.metered, x.row
		return of, true
	}
	c.Make(res.Block)
	if x.metered != nil && x.meterBody(x.metered, new(rewrite.Parser), c.Body, to) != nil {
		return Demand{}, false
	}
	return x.demandOfStage(c), true
}

// demandOfStage returns the demand of a stage's request.
func (x *exchange) demandOfStage(c *stageCall) Demand {
	var of Demand
	if x.metered == nil {
		return of
	}
	req, err := rewrite.Parse(c.Body)
	if err != nil {
		panic("BUG: the request of a stage is none: " + err.Error())
	}
	of.Prompt = int64(x.setup.rewriter.Count(x.staging.policy, req))
	of.Injected = min(int64(x.report.Rewrite.Ledger.Used), of.Prompt)
	x.fitAnswer(of.Prompt)
	return of
}

// unmade returns the error for a stage that must not be called.
func unmade(err error) error {
	refusal, ok := errors.AsType[*tenant.APIError](err)
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
	return &Unmade{Outcome: outcome, Err: err}
}

// fewerSources returns fewer sources, in the form of staged.Inputs, for a call that its answer rejects
// as too long for the model. ok is false if it does not, or if fewer would not help.
func (x *exchange) fewerSources(answer *transport.Answer) (sources []byte, ok bool) {
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

// optionalParams are the parameters that a stage can do without.
var optionalParams = [...]string{
	"temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "seed",
	"max_tokens", "max_completion_tokens", "reasoning_effort", "reasoning", "verbosity", "thinking", "enable_thinking", "chat_template_kwargs",
	"stream_options", "prediction", "service_tier", "store", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
}

const (
	maxTokens     = "max_tokens"
	maxCompletion = "max_completion_tokens"
)

// modelKey returns the key for the remembered refusals of a stage's model.
func (x *exchange) modelKey(c *stageCall) string {
	to, model := x.upstream, cmp.Or(c.Stage.Model, x.staging.req.Model)
	if c.Stage.Upstream != "" {
		to = x.setup.upstreams[c.Stage.Upstream]
	}
	return to.name + "\n" + to.of.BaseURL.String() + "\n" + model
}

// adaptStage removes from a call the parameters that its model is known to refuse. It is called before
// the body of the call is made.
func (x *exchange) adaptStage(c *stageCall) {
	c.Without = nil
	for _, refusal := range x.server.refused.Of(x.modelKey(c)) {
		switch {
		case !x.mayOmit(c, refusal.Param):
		case refusal.Param == maxTokens && refusal.Instead == maxCompletion:
			c.Model.CompletionCap = true
		default:
			c.Without = append(c.Without, refusal.Param)
		}
	}
}

// mayOmit reports whether a call can be sent without a parameter. Parameters that the client chose
// for its own model are kept.
func (x *exchange) mayOmit(c *stageCall, name string) bool {
	switch {
	case c.Stage.Model != "" || c.Stage.Upstream != "":
		return true
	case name == "temperature":
		return c.Stage.Temperature != nil
	case name == maxTokens, name == maxCompletion:
		return c.Stage.MaxTokens > 0 || x.metered != nil
	}
	return name == "reasoning_effort" && c.Model.LowEffort() != ""
}

// stageRefused reports whether an answer rejects an optional parameter of its call. adaptStage removes
// that parameter from later calls.
func (x *exchange) stageRefused(c *stageCall, answer *transport.Answer) bool {
	if c.Stage == nil || !services.MayRefuseParam(answer.Status()) {
		return false
	}
	body, ok := errorBody(answer)
	if !ok {
		return false
	}
	var sent []string
	for _, name := range optionalParams {
		if carries(x.outgoing, name) && x.mayOmit(c, name) {
			sent = append(sent, name)
		}
	}
	refusal, ok := services.RefusedParam(answer.Status(), body, sent...)
	if !ok || x.metered != nil && (refusal.Param == maxTokens || refusal.Param == maxCompletion) && refusal.Instead == "" {
		return false // limits need a cap on the answer
	}
	x.server.refused.Add(x.modelKey(c), refusal)
	return true
}

// carries reports whether the pieces of a body have a member of that name.
func carries(pieces [][]byte, name string) bool {
	key := []byte(`"` + name + `":`)
	return slices.ContainsFunc(pieces, func(piece []byte) bool { return bytes.Contains(piece, key) })
}

// stageError returns the error that a client gets for a failed stage, or for the failed request
// that replaced the stages.
func (x *exchange) stageError(err error) *tenant.APIError {
	if refusal, ok := errors.AsType[*tenant.APIError](err); ok {
		return refusal
	}
	failed, ok := errors.AsType[*StageError](err)
	if !ok {
		return tenant.AsError(x.server.transportError(err))
	}
	reason := report.ReasonStage
	if failed.Stage.Outcome == report.StageTimeout {
		reason = report.ReasonStageTimeout
	}
	if failed.Stage.Outcome == report.StageRefused { // a retry would be refused, too
		return &tenant.APIError{Reason: reason, Message: failed.Error(), Err: failed.Err, Final: true}
	}
	return &tenant.APIError{Reason: reason, Message: failed.Error() + " Try again.", Wait: failed.Wait, Err: failed.Err}
}
