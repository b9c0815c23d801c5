package proxy

import (
	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// preflighted returns the method that a browser asks leave for on behalf of a page,
// nothing if this is no CORS preflight (Fetch standard, "CORS-preflight request").
func preflighted(h *fasthttp.RequestHeader) (method []byte) {
	if !h.IsOptions() || len(h.Peek(fasthttp.HeaderOrigin)) == 0 {
		return nil
	}
	return h.Peek(fasthttp.HeaderAccessControlRequestMethod)
}

// preflight relays a CORS preflight, which to answer is up to the upstream. A browser
// sends no credentials with it, and it gets none of ours; it asks about routes that
// are open. Where callers are known by their keys, nobody can tell whose it is: it
// goes to the upstream if there is but one.
func (x *exchange) preflight(ctx *fasthttp.RequestCtx, method []byte) error {
	var routes []string
	if p := x.server.tenants.ByKey("", x.report.Time); p != nil {
		x.become(p)
		routes = p.Routes
	} else if len(x.server.upstreams) > 1 {
		return noKey()
	} else {
		for name, only := range x.server.upstreams {
			x.report.Upstream, x.upstream = name, only
		}
	}
	if x.upstream.replace == nil {
		return x.forward(ctx, transport.Request{})
	}
	if err := x.open(method, routes); err != nil {
		return err
	}
	return x.forward(ctx, transport.Request{Replace: []transport.Header{{Name: "Authorization"}, {Name: "Api-Key"}, {Name: "X-Api-Key"}}})
}
