package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache"
	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/staged"
)

// A staging is the state of a chat that is answered in stages.
type staging struct {
	*stageRun
	body    []byte // the client's
	policy  rewrite.Policy
	asked   rewrite.Options
	metered *rewrite.MeteredRequest // of the client's request
	made    int                     // number of calls for which budget was reserved
	lowered bool                    // the reservation is for the request without stages
}

// tellsUsage reports whether the client's stream includes usage.
func (g *staging) tellsUsage() bool { return g.req.Limits.IncludeUsage.N == 1 }

// fitStages returns a chat in the form that stages take; nil if it is not answered in stages. If a
// chat does not fit a chain the report says why, and the error refuses it if the policy requires
// stages.
func (x *exchange) fitStages(req *chat.Request, p *rewrite.Policy) (*staged.Request, error) {
	if p.Mode != rewrite.Staged {
		return nil, nil
	}
	chat := staged.Read(req)
	why := chat.Unfit()
	if why == "" {
		*p = p.Protecting(x.policy.Stages.Chain.Tags())
		return chat, nil
	}
	p.Mode, x.report.StagesSkipped = rewrite.Inject, string(why)
	if x.policy.Stages.RefuseUnfit {
		return nil, &tenant.APIError{Reason: report.ReasonUnfit, Message: "Your policy answers every chat in stages, and this one cannot be: " + why.Explained() + "."}
	}
	return nil, nil
}

// answerInStages answers a rewritten chat in stages.
func (x *exchange) answerInStages(req *staged.Request, a *attempt) error {
	x.staging = &staging{body: a.body, policy: a.policy, asked: a.asked, metered: x.metered}
	x.report.Outcome = report.Staged
	x.checker = x.newCitationStage(req.Request)
	g := x.staging
	g.stageRun = x.newStageRun(req, rewrite.StripEdits(req.Request, a.policy.Placement), x.report.Rewrite.Block)
	end, over := g.Start()
	if !over && req.Stream {
		x.leadStages()
		return nil
	}
	if !over {
		end = g.Rest()
	}
	return x.endInStages(end)
}

// refusesEmpty reports whether a fixed answer is sent if a stage found nothing; otherwise the request
// is sent without sources then.
func (g *staging) refusesEmpty() bool { return g.policy.Empty() == rewrite.EmptyRefuse }

// emptyAnswer returns the answer of a chat in which a stage found nothing.
func (g *staging) emptyAnswer() []byte {
	r := &g.x.report
	r.Outcome, r.Reason = rewrite.Answered, rewrite.Reason(retrieval.ReasonIrrelevant)
	return g.x.fixedAnswer(g.req.Request, false, g.policy.EmptyAnswer)
}

// stageErrorBody returns the response body for an error in a stream, and records the error.
func (x *exchange) stageErrorBody(err error) []byte {
	e := x.stageError(err)
	if !errors.Is(e, errClientGone) {
		x.noteError(e)
	}
	return e.JSON(x.target.Route.API(), x.report.IDs())
}

// endStages marks the stages as ended and returns the Report.
func (x *exchange) endStages() *report.Report {
	if x.report.Stages != nil {
		x.report.Stages.Ended = true
	}
	return &x.report
}

// closeStages marks the stages as ended and returns the comment at the end of their stream.
func (x *exchange) closeStages() string { return string(report.AppendClosing(nil, x.endStages())) }

// leadStages sends the head of a stream, for which the first upstream call was answered, and then
// runs the remaining stages.
func (x *exchange) leadStages() {
	g := x.staging
	x.beginStream()
	x.report.TTFB, x.report.Status = time.Since(x.report.Time), fasthttp.StatusOK
	how := transport.Relay{AppendHeaders: x.statusHeaders, KeepBody: true, Done: x.whenDone}
	if g.metered != nil && g.metered.HidesUsage() {
		how.Filter = func(w io.Writer) io.WriteCloser { return answer.NewUsageHider(w) }
	}
	x.checker.Streamed(&how)
	how.Replace = append(slices.Clip(ours), transport.Header{Name: fasthttp.HeaderContentType, Value: "text/event-stream; charset=utf-8"},
		transport.Header{Name: fasthttp.HeaderCacheControl, Value: "no-cache"})
	g.Answer.ReplyWith(x.ctx, how, func(w *transport.ReplyWriter) error {
		if g.settings.NoHeartbeat { // else the head is sent with the first comment
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if how.Filter == nil {
			return g.Stream(w, g.tellsUsage())
		}
		through := how.Filter(w)
		return errors.Join(g.Stream(through, g.tellsUsage()), through.Close())
	})
}

// endInStages answers a client to which nothing was sent so far.
func (x *exchange) endInStages(end stageEnd) error {
	g := x.staging
	switch end {
	case endByNobody:
		return errClientGone
	case endByError:
		x.endStages()
		return x.stageError(g.Err)
	case endByInjected, endByBare:
		return x.sendInstead(end == endByBare)
	case endByBody:
		x.endStages()
		body := x.checker.Whole(g.Body)
		if g.req.Stream {
			body = g.loop.Events(body, g.tellsUsage(), string(report.AppendClosing(nil, &x.report)))
		}
		x.answerItself(body, g.req.Stream)
		return nil
	}
	x.endStages()
	x.relayInstead(g.Answer, g.Body)
	return nil
}

// relayInstead relays an answer with another body.
func (x *exchange) relayInstead(answer *transport.Answer, body []byte) {
	body = x.checker.Whole(body)
	how := x.howOf(answer)
	how.Filter = answerInstead(how.Filter, body)
	answer.Relay(x.ctx, how)
}

// sendInstead sends the request as mode inject does, to a client to which nothing was sent so far.
func (x *exchange) sendInstead(bare bool) error {
	edits, err := x.instead(bare)
	if err != nil {
		return err
	}
	x.endStages()
	x.attempt = attempt{x.staging.body, x.staging.req.Request, x.staging.policy, x.staging.asked}
	x.again = x.report.Rewrite.Outcome == rewrite.Injected && x.policy.RetryTooLong
	return x.send(x.staging.body, edits)
}

// instead prepares the request as mode inject sends it and reserves budget for it. bare leaves out
// the sources, because none help.
func (x *exchange) instead(bare bool) ([]rewrite.Edit, error) {
	g, res := x.staging, &x.report.Rewrite
	x.beginStage(true)
	x.settleStage()
	if x.metered = g.metered; x.metered != nil && !g.lowered { // else the answer's limit is fitted already
		if err := x.measure(g.body); err != nil {
			return nil, err
		}
	}
	if bare {
		p := g.policy
		p.SkipSearch = true
		x.setup.rewriter.Rewrite(x.work, &p, g.req.Request, &g.asked, res)
	}
	x.report.Outcome, x.report.Reason = res.Outcome, res.Reason
	switch {
	case g.lowered: // budget is reserved already
		return res.Edits, nil
	case g.made == 0: // it still counts as the client's request
		return res.Edits, x.reserve(x.demandOf(&g.policy, g.req.Request), asItIs)
	}
	return res.Edits, x.reserveLater(budget.Chat, x.demandOf(&g.policy, g.req.Request))
}

// settleStage settles the previous call, whose answer was read.
func (x *exchange) settleStage() {
	if x.staging.made > 0 && !x.staging.lowered {
		x.endRound()
	}
}

// callStage settles the previous call of a chat in stages, whose answer was read, and makes the
// next one. The error is a *transport.Error, a *NotCalledError, errLowered, or an error to answer
// the client with.
func (x *exchange) callStage(ctx context.Context, c *stageCall) (*transport.Answer, error) {
	g, to, model := x.staging, x.upstream, ""
	if c.Stage == nil {
		edits, err := x.instead(c.Bare)
		if err != nil {
			return nil, err
		}
		x.outgoing = rewrite.EditPieces(x.outgoing[:0], g.body, x.allEdits(edits))
	} else {
		x.beginStage(c.Last)
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
	if c.Stage != nil {
		x.report.Calls[len(x.report.Calls)-1].Model = x.setup.rewriter.Models.Model(model).Row
	}
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
		if err := x.meterBody(r, new(chat.Parser), c.Body, to); err != nil {
			return unmade(err)
		}
		r.OutputCaps.Completion = r.OutputCaps.Completion || c.Model.CompletionCap
	}
	if c.Again {
		x.spending.ShortenRequest(func() Demand { return x.demandOfStage(c) })
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
		p := OnRung(g.policy, r)
		x.setup.rewriter.Rewrite(x.work, &p, g.req.Request, &g.asked, res)
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
	if x.metered != nil && x.meterBody(x.metered, new(chat.Parser), c.Body, to) != nil {
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
	req, err := x.staging.req.API.Parse(c.Body)
	if err != nil {
		panic("BUG: the request of a stage is none: " + err.Error())
	}
	of.Prompt = int64(x.setup.rewriter.Count(x.staging.policy, req))
	of.Injected = min(int64(x.report.Rewrite.Ledger.Grown()), of.Prompt)
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
	return &NotCalledError{Outcome: outcome, Err: err}
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
	res, ok := again.shorter(x.work, x.setup.rewriter, x.report.Rewrite.Ledger.Grown(), t)
	if !ok {
		return nil, false
	}
	x.report.Rewrite, x.report.Reason = res, res.Reason
	return res.Block, true
}

// optionalParams are the parameters that a stage can do without.
var optionalParams = [...]string{
	"temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "seed",
	"max_tokens", "max_completion_tokens", "max_output_tokens", "reasoning_effort", "reasoning", "output_config", "verbosity", "thinking", "enable_thinking", "chat_template_kwargs",
	"stream_options", "prediction", "service_tier", "store", "metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
}

const (
	maxTokens     = "max_tokens"
	maxCompletion = "max_completion_tokens"
	maxOutput     = "max_output_tokens"
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
	case name == maxTokens && x.staging.req.API == chat.Messages: // which requires it
		return false
	case c.Stage.Model != "" || c.Stage.Upstream != "":
		return true
	case name == "temperature":
		return c.Stage.Temperature != nil
	case name == maxTokens, name == maxCompletion, name == maxOutput:
		return c.Stage.MaxTokens > 0 || x.metered != nil
	}
	return name == staged.EffortParam(x.staging.req.API) && c.Model.LowEffort() != ""
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
	if !ok || x.metered != nil && (refusal.Param == maxTokens || refusal.Param == maxCompletion || refusal.Param == maxOutput) && refusal.Instead == "" {
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

// stageOutputKey returns the cache key of the answer of an upstream to the body of a stage's request;
// "" is the client's upstream.
func (x *exchange) stageOutputKey(upstream string, body []byte) string {
	return cache.StageOutputKey(x.policy.Tenant, x.stageKey(upstream), body)
}

// stageKey returns a hash of what else a stage's answer depends on: the upstream, the path on it,
// which may name a model, and the caller's credentials if they are used.
func (x *exchange) stageKey(upstream string) string {
	to := x.upstream
	if upstream != "" {
		to = x.setup.upstreams[upstream]
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q %q %q", to.name, to.of.BaseURL, transport.TargetOn(to.of.BaseURL, x.ctx.Request.Header.RequestURI(), ""))
	if to == x.upstream {
		own := credentials(&x.request)
		for _, name := range slices.Sorted(maps.Keys(own)) {
			_, _ = fmt.Fprintf(sum, " %q %q", name, own[name])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// anotherRequest removes the client's idempotency key, which is for the client's own request only:
// an upstream could answer a further request as that one.
var anotherRequest = transport.Header{Name: "Idempotency-Key"}

// headOfStage returns the replacements of header lines for a call to an upstream whose body is not
// the client's. stage reports whether a stage makes the call.
func headOfStage(q *request, to *backend, stage bool) []transport.Header {
	replace := []transport.Header{{Name: fasthttp.HeaderAcceptEncoding, Value: "identity"}, {Name: fasthttp.HeaderContentEncoding}}
	if stage {
		replace = append(replace, anotherRequest)
	}
	if to == q.upstream {
		return append(replace, q.replacements()...)
	}
	replace = append(replace, to.replace...)
	for _, name := range q.ctx.Request.Header.PeekKeys() {
		if !slices.Contains(anonymous[:], strings.ToLower(string(name))) {
			replace = append(replace, transport.Header{Name: string(name)})
		}
	}
	return replace
}

// anonymous are the only header lines of the client that another upstream gets, since they do not
// identify the client. Any other line might be a credential.
var anonymous = [...]string{"accept", "content-type", "user-agent", "traceparent", "tracestate", "x-request-id"}
