package proxy

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval"
	"sidenote/rewrite"
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
func (x *exchange) fitStages(req *rewrite.Request, p *rewrite.Policy) (*staged.Request, error) {
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
		return nil, &tenant.APIError{Reason: report.ReasonUnfit, Message: "Here every chat is answered in stages, which this one cannot be: " + why.Explained() + "."}
	}
	return nil, nil
}

// answerInStages answers a rewritten chat in stages.
func (x *exchange) answerInStages(req *staged.Request, a *attempt) error {
	x.staging = &staging{body: a.body, policy: a.policy, asked: a.asked, metered: x.metered}
	x.report.Outcome = report.Staged
	x.checker = newCitationStage(x.policy.Citations, req.Request, &x.report, x.server.documents, x.panicked)
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
	return e.JSON()
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
			body = stageEvents(body, g.tellsUsage(), string(report.AppendClosing(nil, &x.report)))
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
	x.settleStage()
	if x.metered = g.metered; x.metered != nil && !g.lowered { // else the answer's limit is fitted already
		if err := x.measure(g.body); err != nil {
			return nil, err
		}
	}
	if bare {
		p := g.policy
		p.SkipSearch = true
		*res = x.setup.rewriter.Rewrite(x.life, p, g.req.Request, g.asked)
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
