package proxy

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

// A chatRequest is the state that a request, mostly a chat, needs until it is sent.
type chatRequest struct {
	compressed []byte                  // the body as received, if it was compressed
	parser     *chat.Parser            // holds the parsed body; nil if none was parsed, or once it is freed
	outgoing   [][]byte                // pieces of the body for the upstream; empty once they are sent
	attempt    attempt                 // inputs of the rewrite
	edits      []rewrite.Edit          // edits of the rewrite that was sent; see allEdits
	continued  []rewrite.Edit          // edits that continue a turn with rounds; see allEdits
	again      bool                    // may be sent again with fewer sources, if the upstream says that it is too long
	sentAgain  bool                    // was sent again with fewer sources, or without edits that the upstream refused
	metered    *rewrite.MeteredRequest // the request as metered; nil if it is not metered
	limits     rewrite.MeteredRequest  // memory for metered
	row        string                  // row of the model table for the model of metered
	window     int                     // context window of that model in tokens; 0 if unknown
	planner    *Planner                // plans the search; nil without planning
	chunks     *rewrite.ChunkResult    // results for typed chunks; nil if there are none
	tools      *tooling                // set if the model is offered Sidenote's tools
	given      *givenTurn              // set if the policy repeats sources
	staging    *staging                // set if the chat is answered in stages
	recordAs   string                  // policy that says what is recorded, if it is not that of the request
	sampled    bool                    // the upstream's token count of this request is compared with ours
}

// An attempt is a chat to rewrite, with its policy and options.
type attempt struct {
	body   []byte
	req    *chat.Request
	policy rewrite.Policy // policy of the rewrite, as narrowed by the request
	asked  rewrite.Options
}

// free frees the body and what was parsed from it, and clears c.
func (c *chatRequest) free(s *Server) {
	switch {
	case c.parser != nil:
		c.parser.Reset()
		s.parsers.Put(c.parser)
	case c.compressed == nil: // then nothing is set
		return
	}
	clear(c.outgoing)
	outgoing := c.outgoing[:0]
	*c = chatRequest{} // see release
	c.outgoing = outgoing
}

// serveChat reads the options and the body of a chat request and rewrites it, or relays a
// request that it cannot read.
func (x *exchange) serveChat() error {
	var asked rewrite.Options
	if x.head.HasSidenoteHeader() {
		var err error
		if asked, err = tenant.ReadHeaderOptions(&x.ctx.Request.Header, true); err != nil {
			return err
		}
		if err = x.readFeedbackHeader(); err != nil {
			return err
		}
	}
	body, reason, err := x.readBody()
	if err != nil {
		return err
	}
	if reason != "" {
		x.report.Outcome, x.report.Reason = rewrite.Untouched, reason
		if err := x.reserveUnread(); err != nil {
			return err
		}
		whole := x.compressed != nil // else the rest of the body is still unread
		return x.forward(transport.Call{Body: [][]byte{body}, Whole: whole, Same: true, Replace: x.replacements(), NoUpgrade: true})
	}
	if err := x.checkModels(body); err != nil {
		return err
	}
	return x.rewriteChat(body, asked)
}

// rewriteChat rewrites a chat request if its policy says so, and sends it. body is the whole body;
// asked holds the options in its headers.
func (x *exchange) rewriteChat(body []byte, asked rewrite.Options) error {
	received := body
	x.keepBody(body, nil)
	x.parser = x.server.parsers.Get().(*chat.Parser)
	req, bodyErr := x.parser.Parse(x.target.Route.API(), body)
	if req != nil && req.Model == "" && req.API == chat.Messages { // clouds have it in the path
		req.Model = cmp.Or(append(x.target.PathModels(), "")...)
	}
	if req != nil {
		field, err := rewrite.ReadOptions(req)
		if err != nil {
			return err
		}
		asked = rewrite.MergeOptions(asked, field)
		if asked.Chunks != nil && req.Empty {
			bodyErr = nil // its chunks become its messages
		}
	}
	if bodyErr == nil {
		if err := x.chooseOverride(req); err != nil {
			return err
		}
		x.joinExperiment(req, &asked)
	}
	a := &x.attempt
	a.body, a.req, a.asked = body, req, asked
	if err := a.narrow(x.policy, x.caller.Claims); err != nil {
		return err
	}
	if asked.Chunks != nil {
		if bodyErr != nil {
			return bodyErr
		}
		if err := a.takeChunks(x.setup.rewriter); err != nil {
			return err
		}
		body, x.chunks = a.body, a.asked.ChunkResult
		x.chunks.Record(&x.report.Rewrite.Ledger)
	}
	if bodyErr == nil {
		if err := x.measure(body); err != nil {
			return err
		}
	}
	x.report.Mode = a.policy.Mode.String()
	if bodyErr != nil {
		return x.chatAsItIs(a, bodyErr)
	}
	if rule := a.policy.Background(a.req, &a.asked, x.headerValue); rule != "" {
		x.report.Rewrite.Ledger.Background, a.policy.Mode = rule, rewrite.Off
	}
	x.report.Stream = a.req.Stream
	x.sampled = !a.req.History.Continued() && x.setup.rewriter.Sample() // what the upstream holds is billed too
	x.model, x.tier = a.req.Model, a.req.ServiceTier
	if x.metered == nil && a.req.Stream && x.server.budgets != nil && x.terms.Priced() { // streams often report no usage
		x.counter = x.setup.rewriter.Models.Model(a.req.Model).Counter
	}
	if (!x.target.Route.Answers() || a.req.OnlyWarms()) && a.policy.Empty() == rewrite.EmptyRefuse {
		a.policy.OnEmpty = rewrite.EmptyPass // an answer would have another form
	}
	x.useHelpers(&a.policy, a.req)
	x.followChain(a)
	x.noteFollowUp(a)
	x.beginRecord(a, received)

	if a.policy.Mode == rewrite.Off || a.policy.Mode == rewrite.Shadow {
		return x.relayChat(a)
	}
	a.policy.CountWhole = a.policy.CountWhole || x.metered != nil
	return x.injectSources(a)
}

// beginRecord notes what a chat asks if it is to be recorded. Background calls are not: no user asked
// them.
func (x *exchange) beginRecord(a *attempt, received []byte) {
	if x.server.recorder == nil || !x.target.Route.Answers() || x.report.Rewrite.Ledger.Background != "" {
		return
	}
	x.draft = x.server.recorder.Begin(cmp.Or(x.recordAs, x.policy.Name), x.policy.Tenant, x.report.ID)
	x.draft.Ask(received, a.req, &a.asked)
	x.draft.Experiment(x.report.Experiment.Name, x.report.Experiment.Arm)
}

// headerValue returns the value of a header of the request, "" if it has none.
func (x *exchange) headerValue(name string) string { return string(x.ctx.Request.Header.Peek(name)) }

// chooseOverride replaces the policy of a chat by the override that matches, if any.
func (x *exchange) chooseOverride(req *chat.Request) error {
	if len(x.policy.Overrides) == 0 {
		return nil
	}
	if err := x.checkQuery(); err != nil {
		return err
	}
	p, err := x.policy.ForChat(x.target.Path, req)
	if err != nil {
		return err
	}
	if p != x.policy {
		x.usePolicy(p)
	}
	return nil
}

// injectSources rewrites a chat whose policy injects, then sends or answers it.
func (x *exchange) injectSources(a *attempt) error {
	x.keepCache(a)
	x.avoidRefusedEdits(a)
	x.findGiven(a)
	if a.policy.Mode == rewrite.Tools {
		a.policy = x.offerTools(a.body, a.req, a.policy)
	}
	staged, err := x.fitStages(a.req, &a.policy)
	if err != nil {
		return err
	}
	res := &x.report.Rewrite
	x.setup.rewriter.Rewrite(x.work, &a.policy, a.req, &a.asked, res)
	if answered, err := x.afterRewrite(a); err != nil || answered {
		return err
	}
	if staged != nil {
		return x.answerInStages(staged, a)
	}
	if err := x.reserveRewritten(a); err != nil {
		return err
	}
	x.again = res.Outcome == rewrite.Injected && x.policy.RetryTooLong
	if x.tools != nil {
		if x.report.Outcome = report.WithTools; !x.policy.Tools.FirstSearch {
			x.report.Reason = "" // nothing was to be searched yet
		}
	}
	if x.target.Route.Answers() {
		x.checker = x.newCitationStage(a.req)
	}
	x.askDiagnosis(a)
	return x.send(a.body, res.Edits)
}

// afterRewrite records the result of a rewrite, and answers if no model is to be called.
func (x *exchange) afterRewrite(a *attempt) (answered bool, err error) {
	res := &x.report.Rewrite
	if x.life.Err() != nil {
		return false, errClientGone
	}
	x.report.Outcome, x.report.Reason = res.Outcome, res.Reason
	if refusal := x.planner.Refusal(); refusal != nil {
		return false, budgetError(x.life, refusal)
	}
	switch res.Outcome {
	case rewrite.Refused:
		if res.Ambiguity != nil {
			return false, res.Ambiguity
		}
		return false, noSources(res)
	case rewrite.Answered:
		if x.spending == nil { // not a retry
			if err := x.reserveAnswered(); err != nil {
				return false, err
			}
		}
		x.sendFixedAnswer(a.req, a.policy.EmptyAnswer)
		return true, nil
	}
	return false, nil
}

// narrow sets a.policy to the rewrite policy of p, narrowed by the request's options. claims of
// the caller's token are put into its filter.
func (a *attempt) narrow(p *tenant.Policy, claims map[string][]string) error {
	if err := rewrite.MistypedBase(a.asked, p.Rewrite.Knowledge); err != nil {
		return err
	}
	a.policy = p.Rewrite
	if p.Rewrite.Filter != nil {
		var err error
		if a.policy, err = p.Rewrite.WithClaims(claims); err != nil {
			return err
		}
	}
	a.policy.NarrowBy(&a.asked)
	return nil
}

// takeChunks moves the typed chunks of a request into its body.
func (a *attempt) takeChunks(rw *rewrite.Rewriter) (err error) {
	if a.policy, a.req, a.asked, err = rw.InsertChunks(a.policy, a.req, a.asked); err == nil {
		a.body = a.req.Body
	}
	return err
}

// relayChat sends a chat request without sources. In mode shadow it also finds, in the background,
// the sources that would have been added.
func (x *exchange) relayChat(a *attempt) error {
	if err := x.reserveAsItIs(&a.policy, a.req); err != nil {
		return err
	}
	x.report.Rewrite.Model = x.setup.rewriter.Models.Model(a.req.Model)
	switch {
	case a.policy.Mode == rewrite.Shadow:
		x.report.Outcome = rewrite.Shadowed
		x.runShadow(a.body, a.policy, a.asked)
	case x.report.Rewrite.Ledger.Background != "":
		x.report.Outcome, x.report.Reason = rewrite.Untouched, rewrite.ReasonBackground
	default:
		x.report.Outcome, x.report.Reason = rewrite.Untouched, x.policy.OffReason(x.report.SwitchedFrom)
	}
	return x.send(a.body, rewrite.StripEdits(a.req, a.policy.Placement))
}

// noSources returns the error for a request whose policy requires sources, when not all knowledge
// could be searched.
func noSources(res *rewrite.Result) *tenant.APIError {
	message := "Your policy requires sources, and they are not available; try again."
	if len(res.Retrieval.Sources) > 0 {
		message = "Your policy requires a search of all knowledge bases, and some could not be searched; try again."
	}
	return &tenant.APIError{Reason: res.Reason, Message: message}
}

// chatAsItIs relays a chat request that cannot be rewritten, for the reason in err. It still
// removes the field "sidenote" from a JSON body. A strict policy refuses the request.
func (x *exchange) chatAsItIs(a *attempt, err error) error {
	bodyErr, ok := errors.AsType[*chat.Error](err)
	if !ok || a.policy.Strict() || x.policy.Strict() {
		return err
	}
	if err := x.reserveUnread(); err != nil {
		return err
	}
	x.report.Outcome, x.report.Reason = rewrite.Untouched, bodyErr.Reason
	if a.req == nil {
		return x.send(a.body, nil)
	}
	if a.policy.Mode == rewrite.Off {
		x.report.Reason = x.policy.OffReason(x.report.SwitchedFrom)
	}
	return x.send(a.body, rewrite.StripEdits(a.req, ""))
}

// send applies the edits and forwards a request whose whole body was read. A compressed body
// without edits is forwarded unchanged.
func (x *exchange) send(body []byte, edits []rewrite.Edit) error {
	x.edits, x.attempt.body = edits, body
	edits = x.allEdits(edits)
	x.outgoing = rewrite.EditPieces(x.outgoing[:0], body, edits)
	x.keepBody(nil, x.outgoing)
	r := transport.Call{Body: x.outgoing, Whole: true, Replace: x.withBeta(x.plainStreams(x.replacements())), NoUpgrade: true}
	r.Same = len(edits) == 0 && x.chunks == nil
	switch {
	case x.compressed == nil:
	case r.Same:
		r.Body = [][]byte{x.compressed}
	default:
		r.Replace = append(slices.Clip(r.Replace), transport.Header{Name: fasthttp.HeaderContentEncoding})
	}
	return x.forward(r)
}

// useHelpers sets the planner, the reranker and the grader of p for this request, if p uses them.
func (x *exchange) useHelpers(p *rewrite.Policy, req *chat.Request) {
	if p.Planner.MaxQueries+p.Rerank.Documents == 0 && p.Grade.By == "" || p.Mode == rewrite.Off {
		return
	}
	of := PlanRequest{
		Tenant: x.policy.Tenant, Key: x.report.Key, ID: x.report.ID, Upstream: x.policy.Upstream, Model: req.Model, Settings: p.Planner, Rerank: p.Rerank, Grade: p.Grade, Terms: &x.policy.Budget,
		Path: helperPath(x.target.Route, transport.TargetOn(x.upstream.of.BaseURL, x.ctx.Request.Header.RequestURI(), p.Planner.Model)), Credentials: credentials(&x.request),
	}
	if p.Mode != rewrite.Shadow { // a shadow request has reserved its budget already
		of.BaseCost = x.bare(p, req)
	}
	x.planner = x.setup.planners.SetHelpers(p, of)
}

// helperPath returns the path for calls of Sidenote's own, on the upstream of a request with that
// route and path: that of chat completions or, if it has none, messages.
func helperPath(r route.Kind, path string) string {
	own, query, asked := strings.Cut(path, "?")
	switch r {
	case route.Responses, route.InputTokens, route.Compact:
		if at := strings.LastIndex(strings.ToLower(own), "/responses"); at >= 0 {
			own = own[:at] + "/chat/completions"
		}
	case route.CountTokens:
		own = own[:strings.LastIndexByte(own, '/')]
	}
	if asked {
		own += "?" + query
	}
	return own
}

// bare returns the estimated cost of the request without sources; zero if it is not metered.
func (x *exchange) bare(p *rewrite.Policy, req *chat.Request) budget.Amount {
	if x.metered == nil {
		return budget.Amount{}
	}
	of := Demand{Prompt: int64(x.setup.rewriter.Count(*p, req)), HasReferences: refers(req)}
	x.fitAnswer(of.Prompt)
	return estimateCall(&x.policy.Budget, SpendRequest{Route: x.target.Route, Body: x.metered, Row: x.row}, of)
}

// credentials returns a copy of the caller's credentials for the upstream of its request. It
// returns nil if Sidenote has its own key for that upstream, or if they must not be forwarded.
func credentials(q *request) http.Header {
	if q.upstream.replace != nil || q.caller.By == report.ByJWT || q.caller.StripCredential {
		return nil
	}
	var h http.Header
	for name, value := range q.ctx.Request.Header.All() {
		canonical := http.CanonicalHeaderKey(string(name))
		switch canonical {
		case "Authorization", "Api-Key", "X-Api-Key", "Openai-Organization", "Openai-Project", "Anthropic-Version":
			if text := string(value); !strings.Contains(text, tenant.KeyPrefix) {
				if h == nil {
					h = http.Header{}
				}
				h.Add(canonical, text)
			}
		}
	}
	return h
}

// OwnKey returns the header lines with Sidenote's own key for an upstream; nil if it has none.
func OwnKey(u Upstream) (h http.Header) {
	for _, line := range keyHeaders(u) {
		if line.Value != "" {
			h = http.Header{line.Name: {line.Value}}
		}
	}
	return h
}
