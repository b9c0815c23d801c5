package proxy

import (
	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// preflighted returns the method that a browser asks leave for on behalf of a page,
// nothing if this is no CORS preflight (Fetch standard, "CORS-preflight request"),
// which has neither a body nor credentials.
func preflighted(h *fasthttp.RequestHeader) (method []byte) {
	if !h.IsOptions() || h.ContentLength() > 0 || h.ContentLength() == -1 || len(h.Peek(fasthttp.HeaderOrigin)) == 0 {
		return nil
	}
	if key, err := Credential(h); key != "" || err != nil {
		return nil
	}
	return h.Peek(fasthttp.HeaderAccessControlRequestMethod)
}

// preflight relays a CORS preflight, which to answer is up to the upstream, without
// any key of ours. Where callers are known by theirs, nobody can tell whose it is: it
// goes to the upstream if there is but one, and asks about what is open to somebody.
func (x *exchange) preflight(ctx *fasthttp.RequestCtx, method []byte) (err error) {
	if p := x.server.tenants.ByKey("", x.report.Time); p != nil {
		if err := x.server.tenants.keyless.check(ctx); err != nil {
			return err // nobody can tell whether a key will follow
		}
		if x.become(p); x.upstream.replace != nil {
			err = x.open(method, p.Routes)
		}
	} else if err = noKey(); len(x.server.upstreams) == 1 {
		for _, p := range x.server.tenants.Policies() {
			x.report.Upstream, x.upstream = p.Upstream, x.server.upstreams[p.Upstream]
			if err = x.open(method, p.Routes); err == nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	return x.forward(ctx, transport.Request{NoUpgrade: true})
}
