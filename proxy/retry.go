package proxy

import (
	"context"
	"strconv"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/retrieval/services"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
	"sidenote/rewrite/toolcalls"
)

// retryIfTooLong checks the answer to a rewritten request, before anything of it was sent to the
// client. If the upstream says that the request is too long for the model, and fewer sources may
// help, the request is sent once more with fewer. Otherwise it returns resp unchanged.
func (x *exchange) retryIfTooLong(resp *transport.Answer, r transport.Call) (*transport.Answer, error) {
	t, ok := refusedAsTooLong(resp)
	if !ok {
		return resp, nil
	}
	res, ok := x.attempt.shorter(x.work, x.setup.rewriter, x.report.Rewrite.Ledger.Grown(), t)
	if !ok {
		return resp, nil
	}
	resp.Close()
	x.sentAgain, x.edits = true, res.Edits
	x.report.Rewrite, x.report.Reason = res, res.Reason
	if x.tools == nil {
		x.report.Outcome = res.Outcome
	}
	x.outgoing = rewrite.EditPieces(x.outgoing[:0], x.attempt.body, x.allEdits(res.Edits))
	x.keepBody(nil, x.outgoing)
	x.spending.ShortenRequest(func() Demand { return x.demandOf(&x.attempt.policy, x.attempt.req) })
	r.Body, r.Same = x.outgoing, false
	return x.call(r, report.ToRetryShorter, time.Now())
}

func refusedAsTooLong(resp *transport.Answer) (t TooLongCounts, ok bool) {
	if !mayBeTooLong(resp.Status()) { // do not delay other answers
		return t, false
	}
	body, ok := errorBody(resp)
	if !ok {
		return t, false
	}
	return ReadTooLong(resp.Status(), body)
}

// errorBody returns the body of an error answer, decompressed; ok is false if it is too large or was cut.
func errorBody(resp *transport.Answer) (body []byte, ok bool) {
	if body, ok = resp.Peek(maxTooLongBody, nil); !ok {
		return nil, false
	}
	if encoding := string(resp.Header("Content-Encoding")); !answer.PlainCoding(encoding) {
		var err error
		if body, err = answer.DecodeText(encoding, body, maxTooLongBody, nil); err != nil {
			return nil, false
		}
	}
	return body, true
}

// numberSlack is how many tokens are left free beyond the numbers in the upstream's error, as
// upstreams count differently.
const numberSlack = 16

// shorter rewrites the request again so that it fits by the upstream's numbers, without sources of
// earlier turns. used is how many tokens were added before. It returns false if that would not help.
func (a *attempt) shorter(ctx context.Context, rw *rewrite.Rewriter, used int, t TooLongCounts) (rewrite.Result, bool) {
	policy := a.policy
	a.asked.EarlierSources = nil
	policy.Digest = "" // do not cache this fit: it is for this request only
	switch {
	case t.Requested > 0:
		policy.ContextTokens = min(policy.ContextTokens, used-(t.Requested-t.Limit)-numberSlack)
		if policy.ContextTokens+numberSlack < 0 {
			return rewrite.Result{}, false // it is too long even without what was added
		}
	case t.Limit > 0:
		policy.Window, policy.CountWhole = t.Limit, true
	default:
		policy.ContextTokens = 0
	}
	policy.ContextTokens = max(policy.ContextTokens, 0)
	var res rewrite.Result
	rw.Rewrite(ctx, &policy, a.req, &a.asked, &res)
	if res.Outcome == rewrite.Injected && res.Ledger.Used >= used {
		policy.ContextTokens = 0
		rw.Rewrite(ctx, &policy, a.req, &a.asked, &res)
	}
	if res.Outcome == rewrite.Untouched && res.Reason == rewrite.ReasonBudget {
		res.Reason = rewrite.ReasonWindow
	}
	return res, res.Outcome == rewrite.Injected || res.Outcome == rewrite.Untouched
}

// sendAgain retries a request that its upstream refused because of Sidenote's edits: it is too long, or
// has edits that the upstream rejects. Nothing has been sent to the client yet. Otherwise it returns
// resp unchanged. Both results are nil if the request was answered here.
func (x *exchange) sendAgain(resp *transport.Answer, r *transport.Call) (*transport.Answer, error) {
	if x.again {
		if answer, err := x.retryIfTooLong(resp, *r); err != nil || answer != resp {
			return answer, err
		}
	}
	if x.sentAgain || !answer.MayRefuseEdits(resp.Status()) {
		return resp, nil
	}
	carried := x.carriedEdits() &^ x.report.Refused
	if carried == 0 {
		return resp, nil
	}
	body, ok := errorBody(resp)
	if !ok {
		return resp, nil
	}
	e := answer.ReadRefusedEdits(resp.Status(), body)
	var leave, lasting answer.RefusedEdits
	limit := services.Refusal{Param: maxTokens}
	if _, long := refusedAsTooLong(resp); !long {
		leave = x.editsToLeave(carried, &e, &limit)
		lasting = x.lasting(leave, &e)
	} else {
		leave = x.editsToFit(carried, &e, &limit)
	}
	if leave == 0 {
		return resp, nil
	}
	resp.Close()
	x.sentAgain = !leave.Has(answer.EditCacheMark) || leave.Has(answer.EditTools) // the mark may not have been the reason
	x.report.Refused |= leave
	answered, err := x.leaveOut(leave, limit)
	if err != nil || answered {
		return nil, err
	}
	if leave.Has(answer.EditDiagnostics) {
		r.Replace = withoutBeta(r.Replace)
	}
	r.Body, r.Same, r.Replace = x.outgoing, false, withLine(r.Replace, anotherRequest)
	next, err := x.call(*r, report.ToRetryEdits, time.Now())
	switch {
	case err != nil:
		return next, err
	case next.Status()/100 == 2:
		x.rememberRefused(lasting, limit, &e)
	case !x.sentAgain:
		return x.sendAgain(next, r)
	}
	return next, nil
}

// lasting returns the edits whose refusal is remembered. The others may have been refused for what
// is in this request: sources, tools besides the application's own, restored turns, and a limit
// that leaves no room for the prompt.
func (x *exchange) lasting(leave answer.RefusedEdits, e *answer.EditsRefusal) answer.RefusedEdits {
	leave &^= answer.EditSources
	if leave.Has(answer.EditTools) && (x.tools.HasAppTools() || x.tools.HasRestored() && !e.Named.Has(answer.EditTools)) {
		leave &^= answer.EditTools
	}
	if leave.Has(answer.EditMaxTokens) && e.Named.Has(answer.EditMaxTokens) && e.Fitting(x.metered.Length()) > 0 {
		leave &^= answer.EditMaxTokens
	}
	return leave
}

// editsToFit returns the edits to leave out of a request that is too long even with fewer sources:
// the limit of its answer, which is lowered to what the prompt leaves, else tools.
func (x *exchange) editsToFit(carried answer.RefusedEdits, e *answer.EditsRefusal, limit *services.Refusal) answer.RefusedEdits {
	if carried.Has(answer.EditMaxTokens) {
		if n := e.Fitting(x.metered.Length()); n > 0 {
			limit.Instead = strconv.Itoa(n)
			return answer.EditMaxTokens
		}
	}
	if x.policy.RetryTooLong {
		return carried & answer.EditTools
	}
	return 0
}

// carriedEdits returns the edits in the request that the app did not ask for.
func (x *exchange) carriedEdits() (all answer.RefusedEdits) {
	req := x.attempt.req
	if x.tools != nil && !x.tools.Withdrawn() {
		all |= answer.EditTools
	}
	if x.metered != nil && x.metered.HidesUsage() {
		all |= answer.EditIncludeUsage
	}
	if x.metered != nil && x.metered.AddsCap() {
		all |= answer.EditMaxTokens
	}
	inMessages := req != nil && x.report.Rewrite.Outcome == rewrite.Injected
	if inMessages {
		all |= answer.EditSources
	}
	if inMessages && x.report.Rewrite.Ledger.CacheMark == rewrite.MarkSet {
		all |= answer.EditCacheMark
	}
	if x.diagnosis != nil {
		all |= answer.EditDiagnostics
	}
	placed := inMessages && x.report.Rewrite.Ledger.Placement != rewrite.PlaceLastUser
	if (placed || x.tools != nil && x.tools.Policy().XML) && addsSystem(req) && !x.attempt.policy.NoSystem {
		all |= answer.EditSystemMessage
	}
	return all
}

// addsSystem reports whether adding to the system message creates one, and a user message could
// hold the text instead.
func addsSystem(req *chat.Request) bool {
	_, last := req.Question()
	return last >= 0 && (req.System().Added || req.API != chat.Completions && req.Instructions().Added)
}

// editsToLeave returns the edits to leave out of the request: those that the error names, or all
// if it names none. Sources replace tools, so they are not left out together. limit is set to what
// becomes of the answer's limit.
func (x *exchange) editsToLeave(carried answer.RefusedEdits, e *answer.EditsRefusal, limit *services.Refusal) answer.RefusedEdits {
	if e.Theirs {
		return 0
	}
	leave := e.Named & carried
	if leave.Has(answer.EditSources) && carried.Has(answer.EditCacheMark) { // a mark makes a list of a text
		leave = leave&^answer.EditSources | answer.EditCacheMark
	}
	switch {
	case e.Named != 0 && leave == 0:
		return 0 // the application's own fields are refused
	case leave == 0:
		switch leave = carried; { // the likelier ones
		case leave.Has(answer.EditCacheMark):
			leave &= answer.EditCacheMark | answer.EditDiagnostics
		case leave.Has(answer.EditTools | answer.EditDiagnostics):
			leave &^= answer.EditSources | answer.EditSystemMessage
		}
	}
	switch {
	case leave.Has(answer.EditSources) && x.mayLeaveSources():
		leave &^= answer.EditSystemMessage // without sources there is none
	case leave.Has(answer.EditSources):
		leave &^= answer.EditSources
	}
	if leave.Has(answer.EditMaxTokens) && !x.changeLimit(e, limit) {
		leave &^= answer.EditMaxTokens
	}
	return leave
}

// mayLeaveSources reports whether the policy allows an answer without sources.
func (x *exchange) mayLeaveSources() bool {
	p := &x.attempt.policy
	return !p.RefuseOnFailure && !p.RefuseOnPartial && p.Empty() != rewrite.EmptyRefuse &&
		p.Grounding != rewrite.GroundingStrict && len(p.Components) == 0
}

// changeLimit finds what the upstream may accept instead of the limit that Sidenote gave the
// answer: its other name, or a lower one. The limit is left out only if the model's own maximum is
// known, which is then reserved, and the policy has no limit. Otherwise an answer could cost more
// than is reserved.
func (x *exchange) changeLimit(e *answer.EditsRefusal, limit *services.Refusal) bool {
	m := x.metered
	if e.Named.Has(answer.EditMaxTokens) {
		if e.Unknown && x.target.Route == route.Chat {
			limit.Instead = otherLimit(m)
			return true
		}
		if n := e.Longest(m.Length()); n > 0 {
			limit.Instead = strconv.Itoa(n)
			return true
		}
	}
	return x.mayUncap(m)
}

func otherLimit(m *rewrite.MeteredRequest) string {
	if m.Completion {
		return maxTokens
	}
	return maxCompletion
}

func (x *exchange) mayUncap(m *rewrite.MeteredRequest) bool {
	return m.Tenant == 0 && x.setup.rewriter.Models.Model(m.ModelName()).MaxOutput > 0
}

// limitAnswer changes the limit of the answer in m to what the upstream accepts.
func (x *exchange) limitAnswer(m *rewrite.MeteredRequest, limit services.Refusal) {
	switch n, err := strconv.Atoi(limit.Instead); {
	case limit.Instead == maxTokens || limit.Instead == maxCompletion:
		m.Completion = limit.Instead == maxCompletion
	case err == nil && n > 0:
		if m.Model == 0 || n < m.Model {
			m.Model = n
		}
	case x.mayUncap(m):
		m.Uncapped = true
	}
}

// leaveOut prepares the request without some edits and reserves budget for it. answered reports
// that the request was answered here.
func (x *exchange) leaveOut(leave answer.RefusedEdits, limit services.Refusal) (answered bool, err error) {
	if leave.Has(answer.EditIncludeUsage) {
		x.metered.IncludeUsage = false
	}
	if leave.Has(answer.EditMaxTokens) {
		x.limitAnswer(x.metered, limit)
	}
	if leave.Has(answer.EditDiagnostics) {
		x.diagnosis = nil
	}
	a, of, cheaper := &x.attempt, x.spending.Sent(), (func(budget.Rung) (Demand, bool))(asItIs)
	if leave.Has(answer.EditTools | answer.EditSystemMessage | answer.EditSources | answer.EditCacheMark) {
		if answered, err := x.rewriteWithout(leave); err != nil || answered {
			return answered, err
		}
		of, cheaper = x.demandOf(&a.policy, a.req), x.cheaperRewrite(a)
		x.edits = x.report.Rewrite.Edits
	}
	if x.spending != nil && !x.spending.ReplaceRequest(x.metered, of) {
		x.spending.Settle(&x.report) // the refused call
		x.spending = nil
		if err := x.reserve(of, cheaper); err != nil {
			return false, err
		}
		if x.report.Budget.Rung != "" { // it was rewritten again
			x.edits = x.report.Rewrite.Edits
		}
	}
	x.report.Rewrite.Ledger.Edits = x.edits
	x.chunks.Record(&x.report.Rewrite.Ledger)
	x.outgoing = rewrite.EditPieces(x.outgoing[:0], a.body, x.allEdits(x.edits))
	x.keepBody(nil, x.outgoing)
	return false, nil
}

// rewriteWithout rewrites a chat again without some edits.
func (x *exchange) rewriteWithout(leave answer.RefusedEdits) (answered bool, err error) {
	a, res := &x.attempt, &x.report.Rewrite
	again := leave.Has(answer.EditSystemMessage | answer.EditCacheMark)
	if leave.Has(answer.EditTools) {
		again = again || !x.tools.Policy().FirstSearch || x.tools.HasRestored() || x.tools.policy.Empty() == rewrite.EmptyRefuse
		a.policy = x.tools.policy
		x.tools, x.report.Tools, x.report.ToolsSkipped = nil, nil, string(toolcalls.Refused)
		x.report.Outcome, x.report.Reason = res.Outcome, res.Reason
	}
	if leave.Has(answer.EditSystemMessage) {
		a.policy = a.policy.WithoutSystem()
	}
	if leave.Has(answer.EditCacheMark) {
		a.policy = a.policy.WithoutMarks()
	}
	if leave.Has(answer.EditSources) {
		p := a.policy
		p.ContextTokens, p.Digest = 0, ""
		x.setup.rewriter.Rewrite(x.work, &p, a.req, &a.asked, res)
		if res.Outcome == rewrite.Untouched {
			res.Reason = report.ReasonEdits
		}
		x.noteRewritten()
		return false, nil
	}
	if !again {
		return false, nil
	}
	x.setup.rewriter.Rewrite(x.work, &a.policy, a.req, &a.asked, res)
	if answered, err = x.afterRewrite(a); x.tools != nil && !answered && err == nil {
		x.report.Outcome = report.WithTools
	}
	return answered, err
}

// noteRewritten records the result of rewriting a chat again.
func (x *exchange) noteRewritten() {
	if x.report.Reason = x.report.Rewrite.Reason; x.tools == nil {
		x.report.Outcome = x.report.Rewrite.Outcome
	}
}

// retryRound retries a later round of a chat without tools, and with sources instead, if its upstream
// refuses the tools and nothing has been sent to the client. Otherwise it returns resp unchanged.
func (x *exchange) retryRound(resp *transport.Answer, call transport.Call) (*transport.Answer, error) {
	if x.streaming || x.sentAgain || !answer.MayRefuseEdits(resp.Status()) {
		return resp, nil
	}
	body, ok := errorBody(resp)
	if !ok {
		return resp, nil
	}
	e := answer.ReadRefusedEdits(resp.Status(), body)
	_, long := refusedAsTooLong(resp)
	a, t := &x.attempt, x.tools
	a.policy = t.policy
	if !t.Policy().FirstSearch {
		var res rewrite.Result
		x.setup.rewriter.Rewrite(x.work, &a.policy, a.req, &a.asked, &res)
		if res.Outcome != rewrite.Injected && res.Outcome != rewrite.Untouched {
			return resp, nil
		}
		x.report.Rewrite, x.edits = res, res.Edits
	}
	resp.Close()
	x.sentAgain, x.report.Refused = true, answer.EditTools
	t.Withdraw()
	x.report.Tools.Sources, x.report.Tools.Texts = nil, nil
	if x.spending != nil {
		x.spending.Settle(&x.report)
		x.spending = nil
	}
	if err := x.reserveRound(x.demandOf(&a.policy, a.req)); err != nil {
		return nil, err
	}
	x.outgoing = rewrite.EditPieces(nil, a.body, x.allEdits(x.edits))
	x.keepBody(nil, x.outgoing)
	call.Body = x.outgoing
	next, err := x.call(call, report.ToRetryEdits, time.Now())
	if err == nil && next.Status()/100 == 2 && !long && e.Named.Has(answer.EditTools) && !t.HasAppTools() {
		x.rememberRefused(answer.EditTools, services.Refusal{}, &e)
	}
	return next, err
}

// editsKey returns the key for the remembered refusals of an upstream's model.
func editsKey(to *backend, model string) string {
	if len(model) > maxModelName {
		return ""
	}
	return to.name + "\n" + to.of.BaseURL.String() + "\n" + model
}

// maxModelName is the longest name of a model whose refusals are remembered, in bytes.
const maxModelName = 128

// The params of remembered refusals besides maxTokens.
const (
	refusedTools       = "tools"
	refusedUsage       = "stream_options"
	refusedSystem      = "system"
	refusedMarks       = "cache_mark"
	refusedDiagnostics = "diagnostics"
)

// rememberRefused records the edits left out of a request that then succeeded.
func (x *exchange) rememberRefused(left answer.RefusedEdits, limit services.Refusal, e *answer.EditsRefusal) {
	model := x.attempt.model(x.metered)
	key := editsKey(x.upstream, model)
	if key == "" || left == 0 {
		return
	}
	for edit, refusal := range map[answer.RefusedEdits]services.Refusal{
		answer.EditTools: {Param: refusedTools}, answer.EditIncludeUsage: {Param: refusedUsage},
		answer.EditMaxTokens: limit, answer.EditSystemMessage: {Param: refusedSystem}, answer.EditCacheMark: {Param: refusedMarks}, answer.EditDiagnostics: {Param: refusedDiagnostics},
	} {
		switch {
		case !left.Has(edit):
		case edit == answer.EditTools && e.Reasoning:
			x.server.edits.Add(withEffort(key, x.attempt.req), refusal)
		default:
			x.server.edits.Add(key, refusal)
		}
	}
	x.server.log.Warn("upstream rejects edits that Sidenote makes; they are left out for an hour", "id", x.report.ID, "upstream", x.upstream.name, "model", tenant.Shortened(model), "edits", left.String())
}

// withEffort extends the key of a model's chats by the reasoning effort of req.
func withEffort(key string, req *chat.Request) string {
	return key + "\neffort " + toolcalls.Effort(req.Body)
}

// model returns the model that the request names.
func (a *attempt) model(m *rewrite.MeteredRequest) string {
	switch {
	case a.req != nil:
		return a.req.Model
	case m != nil:
		return m.ModelName()
	}
	return ""
}

// refusedEdits returns the edits that an upstream's model is known to refuse.
func (s *Server) refusedEdits(to *backend, model string) []services.Refusal {
	if s.edits.Empty() {
		return nil
	}
	return s.edits.Of(editsKey(to, model))
}

// toolsRefused reports whether the upstream has refused tools for this model, or for its chats
// with this reasoning effort.
func (x *exchange) toolsRefused(req *chat.Request) bool {
	if x.server.edits.Empty() {
		return false
	}
	key := editsKey(x.upstream, req.Model)
	return contains(x.server.edits.Of(key), refusedTools) || contains(x.server.edits.Of(withEffort(key, req)), refusedTools)
}

func contains(list []services.Refusal, param string) bool {
	for i := range list {
		if list[i].Param == param {
			return true
		}
	}
	return false
}

// avoidRefusedEdits adds sources to a user message if the upstream has refused a system message, and
// sets no mark if it has refused one.
func (x *exchange) avoidRefusedEdits(a *attempt) {
	refused := x.server.refusedEdits(x.upstream, a.req.Model)
	if contains(refused, refusedSystem) && addsSystem(a.req) {
		a.policy = a.policy.WithoutSystem()
		x.report.LeftOut |= answer.EditSystemMessage
	}
	if contains(refused, refusedMarks) {
		a.policy = a.policy.WithoutMarks()
	}
}

// avoidRefused removes from a metered request what its upstream is known to refuse.
func (x *exchange) avoidRefused(m *rewrite.MeteredRequest, to *backend) {
	for _, refusal := range x.server.refusedEdits(to, m.ModelName()) {
		switch refusal.Param {
		case refusedUsage:
			if m.HidesUsage() {
				x.report.LeftOut |= answer.EditIncludeUsage
			}
			m.IncludeUsage = false
		case maxTokens:
			if m.AddsCap() {
				x.report.LeftOut |= answer.EditMaxTokens
				x.limitAnswer(m, refusal)
			}
		}
	}
}

// withLine returns lines with one line added.
func withLine(lines []transport.Header, line transport.Header) []transport.Header {
	return append(lines[:len(lines):len(lines)], line)
}
