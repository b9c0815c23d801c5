package proxy

import (
	"context"
	"time"

	"sidenote/proxy/answer"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// retryIfTooLong checks the answer to a rewritten request, before anything of it was sent to the
// client. If the upstream says that the request is too long for the model, and fewer sources may
// help, the request is sent once more with fewer. Otherwise it returns resp unchanged.
func (x *exchange) retryIfTooLong(resp *transport.Answer, r transport.Call) (*transport.Answer, error) {
	t, ok := refusedAsTooLong(resp)
	if !ok {
		return resp, nil
	}
	res, ok := x.attempt.shorter(x.life, x.setup.rewriter, x.report.Rewrite.Ledger.Used, t)
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
	x.spending.SentAgain(func() Demand { return x.demandOf(&x.attempt.policy, x.attempt.req) })
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

// shorter rewrites the request again so that it fits by the upstream's numbers. used is how many
// tokens were added before. It returns false if that would not help.
func (a *attempt) shorter(ctx context.Context, rw *rewrite.Rewriter, used int, t TooLongCounts) (rewrite.Result, bool) {
	policy := a.policy
	policy.Digest = "" // do not cache this fit: it is for this request only
	switch {
	case t.Requested > 0:
		policy.ContextTokens = used - (t.Requested - t.Limit) - numberSlack
		if policy.ContextTokens+numberSlack < 0 {
			return rewrite.Result{}, false // it is too long even without what was added
		}
	case t.Limit > 0:
		policy.Window, policy.CountWhole = t.Limit, true
	default:
		policy.ContextTokens = 0
	}
	policy.ContextTokens = max(policy.ContextTokens, 0)
	res := rw.Rewrite(ctx, policy, a.req, a.asked)
	if res.Outcome == rewrite.Injected && res.Ledger.Used >= used {
		policy.ContextTokens = 0
		res = rw.Rewrite(ctx, policy, a.req, a.asked)
	}
	if res.Outcome == rewrite.Untouched && res.Reason == rewrite.ReasonBudget {
		res.Reason = rewrite.ReasonWindow
	}
	return res, res.Outcome == rewrite.Injected || res.Outcome == rewrite.Untouched
}
