package proxy

import (
	"github.com/valyala/fasthttp"

	"sidenote/proxy/coding"
	"sidenote/proxy/transport"
	"sidenote/rewrite"
)

// A retry is what it takes to rewrite a request again, with less added.
type retry struct {
	body   []byte
	req    *rewrite.Request
	policy rewrite.Policy
	asked  rewrite.Options
}

// sendAgain looks at the answer to a rewritten request. If the upstream finds the
// request too long for its model, and that may be our doing, it is sent once more
// with what fits; otherwise the answer stays as it is. Nothing of it has reached the
// client yet.
func (x *exchange) sendAgain(ctx *fasthttp.RequestCtx, resp *transport.Response, r transport.Request) (*transport.Response, error) {
	t, ok := refusedAsTooLong(resp)
	if !ok {
		return resp, nil
	}
	res, ok := x.shorter(t)
	if !ok {
		return resp, nil
	}
	resp.Discard()
	x.report.Retried = true
	x.report.Rewrite, x.report.Outcome, x.report.Reason = res, res.Outcome, res.Reason
	x.plain = rewrite.Pieces(x.plain[:0], x.retry.body, res.Edits)
	r.Body, r.Same = x.plain, false
	return x.upstream.client.Send(ctx, r)
}

func refusedAsTooLong(resp *transport.Response) (t tooLongError, ok bool) {
	if saidWith(resp.Status()) == nil { // do not hold it back
		return t, false
	}
	body, whole := resp.Peek(maxTooLong)
	if !whole {
		return t, false
	}
	if encoding := string(resp.Header("Content-Encoding")); !coding.Plain(encoding) {
		var err error
		if body, err = coding.Text(encoding, body, maxTooLong, nil); err != nil {
			return t, false
		}
	}
	return tooLong(resp.Status(), body)
}

// numberSlack is how much further than by an upstream's numbers is cut, in tokens:
// they are of another count than ours.
const numberSlack = 16

// shorter rewrites the request again such that it fits, by what the upstream says of
// it. It is false where that would not help.
func (x *exchange) shorter(t tooLongError) (rewrite.Result, bool) {
	policy, used := x.retry.policy, x.report.Rewrite.Ledger.Used
	policy.Digest = "" // what is fitted now is of this request only
	switch {
	case t.requested > 0:
		policy.ContextTokens = used - (t.requested - t.limit) - numberSlack
		if policy.ContextTokens+numberSlack < 0 {
			return rewrite.Result{}, false // it is too long without what was added
		}
	case t.limit > 0:
		policy.Window, policy.CountWhole = t.limit, true
	default:
		policy.ContextTokens = 0
	}
	policy.ContextTokens = max(policy.ContextTokens, 0)
	res := x.server.rewriter.Rewrite(x.server.base, policy, x.retry.req, x.retry.asked)
	if res.Outcome == rewrite.Injected && res.Ledger.Used >= used {
		policy.ContextTokens = 0
		res = x.server.rewriter.Rewrite(x.server.base, policy, x.retry.req, x.retry.asked)
	}
	if res.Outcome == rewrite.Untouched && res.Reason == rewrite.ReasonBudget {
		res.Reason = rewrite.ReasonWindow
	}
	return res, res.Outcome == rewrite.Injected || res.Outcome == rewrite.Untouched
}
