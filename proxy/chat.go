package proxy

import (
	"errors"
	"slices"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/cited"
	"sidenote/proxy/headeroptions"
	"sidenote/proxy/planning"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
	"sidenote/rewrite/metered"
	"sidenote/rewrite/options"
)

// A chat is what a chat request has beside other requests, while it is made ready.
type chat struct {
	compressed []byte            // the body as it came, if it was compressed
	parser     *rewrite.Parser   // holds the parsed body; nil once that is sent
	outgoing   [][]byte          // the pieces of the body for the upstream; empty once they are sent
	retry      retry             // what a shorter request is made of; its req is nil if none may be sent
	metered    *metered.Request  // makes the request ready to be metered; nil if it is not
	limits     metered.Request   // the memory for metered
	row        string            // of the model table, for the model of metered
	window     int               // of that model, in tokens; 0 is unknown
	planner    *planning.Planner // plans what is searched; nil if nothing is planned
	chunks     *rewrite.Chunks   // what became of typed chunks; nil without any
	tools      *tooling          // of a chat whose model is offered tools of ours; else nil
	staging    *staging          // of a chat that is answered in stages; else nil
	sampled    bool              // the upstream's token count of this request is compared with ours
}

// free frees the body and what was parsed of it.
func (c *chat) free(s *Server) {
	if c.parser != nil {
		c.parser.Reset()
		s.parsers.Put(c.parser)
		c.parser = nil
	}
	c.compressed = nil
	c.metered, c.limits, c.row, c.window = nil, metered.Request{}, "", 0
	c.planner, c.chunks, c.tools, c.staging = nil, nil, nil, nil
	clear(c.outgoing)
	c.outgoing = c.outgoing[:0]
}

// serveChat reads the options and the body of a chat request and goes on with chat, or
// passes on what cannot be read.
func (x *exchange) serveChat() error {
	var asked rewrite.Options
	if x.head.Addressed() {
		var err error
		if asked, err = headeroptions.Read(&x.ctx.Request.Header, true); err != nil {
			return err
		}
	}
	body, reason, err := x.readBody()
	if err != nil {
		return err
	}
	if reason != "" {
		x.report.Outcome, x.report.Reason = rewrite.Untouched, reason
		if err := reserveUnread(x); err != nil {
			return err
		}
		whole := x.compressed != nil // or the rest of the body is still unread
		return x.forward(transport.Call{Body: [][]byte{body}, Whole: whole, Same: true, Replace: x.replacements(), NoUpgrade: true})
	}
	if err := x.checkModels(body); err != nil {
		return err
	}
	return x.rewriteChat(body, asked)
}

// rewriteChat rewrites a chat request, or not, as its policy says, and sends it. body is
// whole; asked are the options of its headers.
func (x *exchange) rewriteChat(body []byte, asked rewrite.Options) error {
	x.keepBody(body, nil)
	x.parser = x.server.parsers.Get().(*rewrite.Parser)
	req, bodyErr := x.parser.Parse(body)
	if req != nil {
		field, err := options.Read(req)
		if err != nil {
			return err
		}
		asked = options.Merge(asked, field)
		if asked.Chunks != nil && req.Empty {
			bodyErr = nil // its chunks are its messages
		}
	}
	if bodyErr == nil {
		if err := chooseOverride(x, body); err != nil {
			return err
		}
	}
	policy, err := narrowed(x, asked)
	if err != nil {
		return err
	}
	if asked.Chunks != nil {
		if bodyErr != nil {
			return bodyErr
		}
		if policy, req, asked, err = x.setup.rewriter.TakeChunks(policy, req, asked); err != nil {
			return err
		}
		body, x.chunks = req.Body, asked.Taken
		x.chunks.Tell(&x.report.Rewrite.Ledger)
	}
	if bodyErr == nil {
		if err := measure(x, body); err != nil {
			return err
		}
	}
	x.report.Mode = policy.Mode.String()
	if bodyErr != nil {
		return x.chatAsItIs(body, req, policy, bodyErr)
	}
	x.report.Stream, x.sampled = req.Stream, x.setup.rewriter.Sample()
	useHelpers(x, &policy, req)

	if policy.Mode == rewrite.Off || policy.Mode == rewrite.Shadow {
		return relayChat(x, body, req, policy, asked)
	}
	policy.CountWhole = policy.CountWhole || x.metered != nil
	return injectSources(x, body, req, policy, asked)
}

// chooseOverride puts the override that fits a chat in place of its policy.
func chooseOverride(x *exchange, body []byte) error {
	if len(x.policy.Overrides) == 0 {
		return nil
	}
	if err := x.checkQuery(); err != nil {
		return err
	}
	p, err := x.policy.ForChat(x.target.Path, body)
	if err != nil {
		return err
	}
	if p != x.policy {
		x.usePolicy(p)
	}
	return nil
}

// injectSources rewrites a chat whose policy injects, and sends or answers it as that turns out.
func injectSources(x *exchange, body []byte, req *rewrite.Request, policy rewrite.Policy, asked rewrite.Options) error {
	if policy.Mode == rewrite.Tools {
		policy = offerTools(x, body, req, policy)
	}
	staged, err := fitStages(x, req, &policy)
	if err != nil {
		return err
	}
	res := &x.report.Rewrite
	*res = x.setup.rewriter.Rewrite(x.life, policy, req, asked)
	if x.life.Err() != nil {
		return errClientGone
	}
	x.report.Outcome, x.report.Reason = res.Outcome, res.Reason
	if refusal := x.planner.Refusal(); refusal != nil {
		return budgetError(x.life, refusal)
	}
	switch res.Outcome {
	case rewrite.Refused:
		if res.Ambiguity != nil {
			return res.Ambiguity
		}
		return noSources(res)
	case rewrite.Answered:
		if err := reserveAnswered(x); err != nil {
			return err
		}
		x.sendFixedAnswer(req, policy.EmptyAnswer)
		return nil
	}
	if staged != nil {
		return answerInStages(x, body, staged, policy, asked)
	}
	if err := reserveRewritten(x, policy, req, asked); err != nil {
		return err
	}
	if res.Outcome == rewrite.Injected && x.policy.RetryTooLong {
		x.retry = retry{body, req, policy, asked}
	}
	if x.tools != nil {
		if x.report.Outcome = report.WithTools; !x.policy.Tools.FirstSearch {
			x.report.Reason = "" // nothing was to be searched
		}
	}
	x.checker = cited.NewChecker(x.policy.Citations, req, &x.report, x.server.documents, x.panicked)
	return x.send(body, res.Edits)
}

// narrowed is the policy of the request as its headers and fields narrow it, with what the
// caller's token says in its filter.
func narrowed(x *exchange, asked rewrite.Options) (rewrite.Policy, error) {
	p := &x.policy.Rewrite
	if err := options.Mistyped(asked, p.Knowledge); err != nil {
		return rewrite.Policy{}, err
	}
	if p.Filter == nil {
		return p.Narrow(asked), nil // copied once
	}
	theirs, err := p.WithClaims(x.caller.Claims)
	if err != nil {
		return rewrite.Policy{}, err
	}
	return theirs.Narrow(asked), nil
}

// relayChat sends a chat request without sources. In mode shadow what they would have been is
// worked out beside it.
func relayChat(x *exchange, body []byte, req *rewrite.Request, p rewrite.Policy, asked rewrite.Options) error {
	if err := reserveAsItIs(x, p, req); err != nil {
		return err
	}
	x.report.Rewrite.Model = x.setup.rewriter.Models.Model(req.Model)
	if p.Mode == rewrite.Shadow {
		x.report.Outcome = rewrite.Shadowed
		x.runShadow(body, p, asked)
	} else {
		x.report.Outcome, x.report.Reason = rewrite.Untouched, x.policy.OffReason(x.report.SwitchedFrom)
	}
	return x.send(body, rewrite.StripEdits(req, p.Placement))
}

// noSources refuses a request if a policy demands sources and not all knowledge could
// be searched.
func noSources(res *rewrite.Result) *Error {
	message := "The sources that every answer here must rest on are not available; try again."
	if len(res.Retrieval.Sources) > 0 {
		message = "Not all of the knowledge that every answer here must rest on could be searched; try again."
	}
	return &Error{Reason: res.Reason, Message: message}
}

// chatAsItIs passes on a chat request that cannot be rewritten, for the reason in err.
// Of a body that is JSON the field "sidenote" is still removed. A strict policy
// refuses the request.
func (x *exchange) chatAsItIs(body []byte, req *rewrite.Request, p rewrite.Policy, err error) error {
	bodyErr, ok := errors.AsType[*rewrite.BodyError](err)
	if !ok || p.Strict() || x.policy.Strict() {
		return err
	}
	if err := reserveUnread(x); err != nil {
		return err
	}
	x.report.Outcome, x.report.Reason = rewrite.Untouched, bodyErr.Reason
	if req == nil {
		return x.send(body, nil)
	}
	if p.Mode == rewrite.Off {
		x.report.Reason = x.policy.OffReason(x.report.SwitchedFrom)
	}
	return x.send(body, rewrite.StripEdits(req, ""))
}

// send makes the edits and forwards a chat request whose whole body was read. A
// compressed body without edits is forwarded as it came, still compressed.
func (x *exchange) send(body []byte, edits []rewrite.Edit) error {
	edits = allEdits(x, edits)
	x.outgoing = rewrite.Pieces(x.outgoing[:0], body, edits)
	x.keepBody(nil, x.outgoing)
	r := transport.Call{Body: x.outgoing, Whole: true, Replace: plainStreams(x, x.replacements()), NoUpgrade: true}
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
