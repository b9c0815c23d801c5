package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/cache/outputs"
	"sidenote/proxy/answers"
	"sidenote/proxy/apierror"
	"sidenote/proxy/cited"
	"sidenote/proxy/completion"
	"sidenote/proxy/meter"
	"sidenote/proxy/report"
	"sidenote/proxy/spend"
	"sidenote/proxy/stages"
	"sidenote/proxy/transport"
	"sidenote/proxy/usage"
	"sidenote/retrieval"
	"sidenote/rewrite"
	requests "sidenote/rewrite/chat"
	"sidenote/rewrite/metered"
	"sidenote/rewrite/staged"
)

// A staging is what a chat has that is answered in stages.
type staging struct {
	*stages.Stages
	body    []byte // the client's
	req     *rewrite.Request
	policy  rewrite.Policy
	asked   rewrite.Options
	metered *metered.Request // of the client's request
	usage   bool             // the client's stream is to tell what was used
	made    int              // calls that were reserved for
	lowered bool             // what is reserved is for the request without stages
}

// fitStages tells whether a chat is answered in stages. If it does not fit a chain the report says
// why, and the error refuses it where its policy does.
func fitStages(x *exchange, req *rewrite.Request, p *rewrite.Policy) (bool, error) {
	if p.Mode != rewrite.Staged {
		return false, nil
	}
	why := staged.Unfit(req)
	if why == "" {
		*p = p.Protecting(x.policy.Stages.Chain.Tags())
		return true, nil
	}
	p.Mode, x.report.Unstaged = rewrite.Inject, string(why)
	if x.policy.Stages.RefuseUnfit {
		return false, &Error{Reason: report.ReasonUnfit, Message: "Here every chat is answered in stages, which this one cannot be: " + why.Explained() + "."}
	}
	return false, nil
}

// answerInStages answers a chat that was rewritten, and is to be answered in stages.
func answerInStages(x *exchange, body []byte, req *rewrite.Request, p rewrite.Policy, asked rewrite.Options) error {
	res, of := &x.report.Rewrite, &x.policy.Stages
	limits, err := requests.ReadLimits(body)
	if err != nil {
		return err // it was read before
	}
	g := &staging{body: body, req: req, policy: p, asked: asked, metered: x.metered, usage: limits.IncludeUsage.N == 1}
	x.staging, x.report.Outcome, x.report.Stages = g, report.Staged, new(report.Stages)
	setup := stages.Setup{
		Host: stageHost{x}, Policy: of, Request: req, Strip: rewrite.StripEdits(req, p), Sources: res.Block, Models: x.setup.rewriter.Models.Model,
		Key: func(upstream string, body []byte) string {
			return outputs.Key(x.policy.Tenant, stageKey(x, upstream), body)
		},
		Outputs: x.setup.outputs, Memory: x, Life: x.life, Report: x.report.Stages, Panicked: x.panicked, Error: func(err error) []byte { return stageError(x, err).JSON() },
		Tap: func(piece []byte) {
			if x.reader != nil {
				x.tap(piece)
			}
		},
		Closing: func() string { return string(report.AppendClosing(nil, endStages(x))) },
	}
	if p.Empty() == rewrite.EmptyRefuse {
		setup.Fixed = func() []byte {
			x.report.Outcome, x.report.Reason = rewrite.Answered, rewrite.Reason(retrieval.ReasonIrrelevant)
			return completion.Append(nil, x.report.ID, x.report.Time, req.Model, req.Body, false, p.EmptyAnswer)
		}
	}
	x.checker = cited.NewChecker(x.policy.Citations, req, &x.report, x.server.documents, x.panicked)
	g.Stages = stages.New(setup)
	end, over := g.Start()
	if !over && req.Stream {
		leadStages(x)
		return nil
	}
	if !over {
		end = g.Rest()
	}
	return endInStages(x, end)
}

// endStages says what is known at the end of the stages.
func endStages(x *exchange) *report.Report {
	if x.report.Stages != nil {
		x.report.Stages.Ended = true
	}
	return &x.report
}

// leadStages sends the head of a stream, whose first call was answered, and goes on with the stages.
func leadStages(x *exchange) {
	g := x.staging
	x.beginStream()
	x.report.TTFB, x.report.Status = time.Since(x.report.Time), fasthttp.StatusOK
	how := transport.Relay{KeepBody: true, Done: x.whenDone}
	if g.metered != nil && g.metered.HidesUsage() {
		how.Through = func(w io.Writer) io.WriteCloser { return usage.NewHider(w) }
	}
	x.checker.Streamed(&how)
	how.Replace = append(slices.Clip(x.lines()), transport.Header{Name: fasthttp.HeaderContentType, Value: "text/event-stream; charset=utf-8"},
		transport.Header{Name: fasthttp.HeaderCacheControl, Value: "no-cache"})
	g.Answer.Lead(x.ctx, how, func(w io.Writer) error {
		if how.Through == nil {
			return g.Stream(w, g.usage)
		}
		through := how.Through(w)
		return errors.Join(g.Stream(through, g.usage), through.Close())
	})
}

// endInStages answers a client that has got nothing so far.
func endInStages(x *exchange, end stages.End) error {
	g := x.staging
	switch end {
	case stages.ByNobody:
		return errClientGone
	case stages.ByError:
		endStages(x)
		return stageError(x, g.Err)
	case stages.ByInjected, stages.ByBare:
		return sendInstead(x, end == stages.ByBare)
	case stages.ByBody:
		endStages(x)
		body := x.checker.Whole(g.Body)
		if g.req.Stream {
			body = stages.Events(body, g.usage, string(report.AppendClosing(nil, &x.report)))
		}
		answerItself(x, body, g.req.Stream)
		return nil
	}
	endStages(x)
	body := x.checker.Whole(g.Body)
	how := howOf(x, g.Answer)
	how.Through = answers.Instead(how.Through, body)
	g.Answer.Relay(x.ctx, how)
	return nil
}

// sendInstead sends the request as mode inject does, to a client that has got nothing so far.
func sendInstead(x *exchange, bare bool) error {
	edits, err := instead(x, bare)
	if err != nil {
		return err
	}
	endStages(x)
	if res := &x.report.Rewrite; res.Outcome == rewrite.Injected && x.policy.RetryTooLong {
		x.retry = retry{x.staging.body, x.staging.req, x.staging.policy, x.staging.asked}
	}
	return x.send(x.staging.body, edits)
}

// instead makes the request ready as mode inject sends it, and reserves for it; bare leaves sources out,
// as none help.
func instead(x *exchange, bare bool) ([]rewrite.Edit, error) {
	g, res := x.staging, &x.report.Rewrite
	settleStage(x)
	if x.metered = g.metered; x.metered != nil {
		if err := measure(x, g.body); err != nil {
			return nil, err
		}
	}
	if bare {
		p := g.policy
		p.FoundNothing = true
		*res = x.setup.rewriter.Rewrite(x.life, p, g.req, g.asked)
	}
	x.report.Outcome, x.report.Reason = res.Outcome, res.Reason
	switch {
	case g.lowered: // it is reserved
		return res.Edits, nil
	case g.made == 0: // it is the client's request, still
		return res.Edits, reserve(x, demandOf(x, g.policy, g.req), asItIs)
	}
	return res.Edits, reserveLater(x, budget.Chat, demandOf(x, g.policy, g.req))
}

// settleStage settles the call before, of which the answer was read.
func settleStage(x *exchange) {
	if x.staging.made > 0 && !x.staging.lowered {
		endRound(x)
	}
}

// A stageHost is the stages.Host of an exchange.
type stageHost struct{ *exchange }

// Call implements stages.Host.
func (x stageHost) Call(ctx context.Context, c *stages.Call) (*transport.Answer, error) {
	g, to := x.staging, x.upstream
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
	replace := append(slices.Clip(credentialsFor(&x.request, to)), transport.Header{Name: fasthttp.HeaderAcceptEncoding, Value: "identity"})
	answer, err := callOn(ctx, x.exchange, to, transport.Call{Head: x.head, Without: KeyPrefix, Body: x.outgoing, Whole: true, Replace: replace, NoUpgrade: true}, why, began)
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
		*res = x.setup.rewriter.Rewrite(x.life, spend.OnRung(g.policy, r), g.req, g.asked)
		if r == meter.NoSources {
			res.Reason = report.ReasonLimit
		}
		x.report.Reason = res.Reason
	}
	if g.lowered {
		return demandOf(x, g.policy, g.req), true
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
func (x stageHost) Shorter(answer *transport.Answer) (string, bool) {
	g := x.staging
	t, ok := refusedAsTooLong(answer)
	if !ok || x.report.Rewrite.Outcome != rewrite.Injected {
		return "", false
	}
	again := retry{g.body, g.req, g.policy, g.asked}
	res, ok := again.rewrite(x.life, x.setup.rewriter, x.report.Rewrite.Ledger.Used, t)
	if !ok {
		return "", false
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
	return &Error{Reason: reason, Message: failed.Error() + " Try again.", Err: failed.Err}
}

// stageKey tells apart whom a stage is asked of: the upstream, the path on it, which may name a model, and
// the credentials where they are the caller's own.
func stageKey(x *exchange, upstream string) string {
	to := x.upstream
	if upstream != "" {
		to = x.setup.upstreams[upstream]
	}
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%q %q %q", to.name, to.of.BaseURL, transport.TargetOn(to.of.BaseURL, x.ctx.Request.Header.RequestURI()))
	if to == x.upstream {
		own := credentials(&x.request)
		for _, name := range slices.Sorted(maps.Keys(own)) {
			_, _ = fmt.Fprintf(sum, " %q %q", name, own[name])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// credentialsFor replaces the client's credentials for an upstream: they go to its own only.
func credentialsFor(q *request, to *backend) []transport.Header {
	if to == q.upstream {
		return q.replacements()
	}
	if to.replace != nil {
		return to.replace
	}
	return foreign
}

// foreign removes all that tells who a client is. It is never changed.
var foreign = append(slices.Clip(withoutCredentials), transport.Header{Name: "Cookie"}, transport.Header{Name: "Openai-Organization"}, transport.Header{Name: "Openai-Project"})
