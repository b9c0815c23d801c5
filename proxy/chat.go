package proxy

import (
	"errors"
	"slices"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// A chat is what a chat request has beside other requests, while it is made ready.
type chat struct {
	compressed []byte          // the body as it came, if it was compressed
	parser     *rewrite.Parser // holds the parsed body; nil once that is sent
	outgoing   [][]byte        // the pieces of the body for the upstream; empty once they are sent
	retry      retry           // what a shorter request is made of; its req is nil if none may be sent
	sampled    bool            // the upstream's token count of this request is compared with ours
}

// free frees the body and what was parsed of it.
func (c *chat) free(s *Server) {
	if c.parser != nil {
		c.parser.Reset()
		s.parsers.Put(c.parser)
		c.parser = nil
	}
	c.compressed = nil
	clear(c.outgoing)
	c.outgoing = c.outgoing[:0]
}

// serveChat reads the options and the body of a chat request and goes on with chat, or
// passes on what cannot be read.
func (x *exchange) serveChat() error {
	var asked rewrite.Options
	if x.head.Addressed() {
		var err error
		if asked, err = headerOptions(&x.ctx.Request.Header, true); err != nil {
			return err
		}
	}
	body, reason, err := x.readBody()
	if err != nil {
		return err
	}
	if reason != "" {
		x.report.Outcome, x.report.Reason = rewrite.Untouched, reason
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
		field, err := rewrite.ReadOptions(req)
		if err != nil {
			return err
		}
		asked = MergeOptions(asked, field)
	}
	if bodyErr == nil && len(x.policy.Overrides) > 0 {
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
	}
	whole := &x.policy.Rewrite
	if whole.Filter != nil { // others are not copied
		theirs, err := whole.WithClaims(x.caller.Claims)
		if err != nil {
			return err
		}
		whole = &theirs
	}
	policy := whole.Narrow(asked)
	x.report.Mode = policy.Mode.String()
	if bodyErr != nil {
		return x.chatAsItIs(body, req, policy, bodyErr)
	}
	x.report.Stream, x.sampled = req.Stream, x.server.rewriter.Sample()

	switch policy.Mode {
	case rewrite.Off:
		x.report.Rewrite.Model = x.server.rewriter.Models.Model(req.Model)
		x.report.Outcome, x.report.Reason = rewrite.Untouched, x.policy.OffReason(x.report.SwitchedFrom)
		return x.send(body, rewrite.StripEdits(req, policy))
	case rewrite.Shadow:
		x.report.Outcome = rewrite.Shadowed
		x.report.Rewrite.Model = x.server.rewriter.Models.Model(req.Model)
		x.runShadow(body, policy, asked)
		return x.send(body, rewrite.StripEdits(req, policy))
	}
	res := &x.report.Rewrite
	*res = x.server.rewriter.Rewrite(x.life, policy, req, asked)
	if x.life.Err() != nil {
		return errClientGone
	}
	x.report.Outcome, x.report.Reason = res.Outcome, res.Reason
	switch res.Outcome {
	case rewrite.Refused:
		if res.Ambiguity != nil {
			return res.Ambiguity
		}
		return noSources(res)
	case rewrite.Answered:
		x.sendFixedAnswer(req, policy.EmptyAnswer)
		return nil
	case rewrite.Injected:
		if x.policy.RetryTooLong {
			x.retry = retry{body, req, policy, asked}
		}
	}
	return x.send(body, res.Edits)
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
	if !ok || p.Strict() || x.policy.strict() {
		return err
	}
	x.report.Outcome, x.report.Reason = rewrite.Untouched, bodyErr.Reason
	if req == nil {
		return x.send(body, nil)
	}
	if p.Mode == rewrite.Off {
		x.report.Reason = x.policy.OffReason(x.report.SwitchedFrom)
	}
	return x.send(body, rewrite.StripEdits(req, rewrite.Policy{}))
}

// send makes the edits and forwards a chat request whose whole body was read. A
// compressed body without edits is forwarded as it came, still compressed.
func (x *exchange) send(body []byte, edits []rewrite.Edit) error {
	x.outgoing = rewrite.Pieces(x.outgoing[:0], body, edits)
	x.keepBody(nil, x.outgoing)
	r := transport.Call{Body: x.outgoing, Whole: true, Replace: x.replacements(), NoUpgrade: true}
	r.Same = len(edits) == 0
	switch {
	case x.compressed == nil:
	case r.Same:
		r.Body = [][]byte{x.compressed}
	default:
		r.Replace = append(slices.Clip(r.Replace), transport.Header{Name: fasthttp.HeaderContentEncoding})
	}
	return x.forward(r)
}
