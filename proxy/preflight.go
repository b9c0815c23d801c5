package proxy

import (
	"github.com/valyala/fasthttp"

	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
)

// preflighted returns the method that a browser asks permission for on behalf of a page; nil if
// this is not a CORS preflight (Fetch standard, "CORS-preflight request"). A preflight has neither
// a body nor credentials.
func preflighted(h *fasthttp.RequestHeader) (method []byte) {
	if !h.IsOptions() || h.ContentLength() > 0 || h.ContentLength() == -1 || len(h.Peek(fasthttp.HeaderOrigin)) == 0 {
		return nil
	}
	if key, err := tenant.Credential(h); key != "" || err != nil {
		return nil
	}
	return h.Peek(fasthttp.HeaderAccessControlRequestMethod)
}

// preflight relays a CORS preflight, without Sidenote's key; the upstream answers it. If keys
// identify the callers, it is not known whose preflight it is. It is then relayed if there is only
// one upstream and the routes of some tenant allow the request.
func (x *exchange) preflight(method []byte) (err error) {
	p := x.setup.tenants.ByKey("", x.report.Time)
	if tenant := transport.PeerOf(x.ctx).Tenant; tenant != "" {
		p = x.setup.tenants.ByName(tenant)
	}
	if p != nil {
		if err := x.setup.tenants.CheckPage(senderOf(x.ctx)); err != nil {
			return err // the actual request may come without a key
		}
		if x.usePolicy(p); x.upstream.replace != nil {
			err = x.checkRoute(method, p.Routes)
		}
	} else if err = tenant.NoKey(); len(x.setup.upstreams) == 1 {
		if x.setup.tenants.Trusts(senderOf(x.ctx)) { // the actual request may need no key
			if err := x.setup.tenants.CheckPage(senderOf(x.ctx)); err != nil {
				return err
			}
		}
		for _, p := range x.setup.tenants.Policies() {
			x.report.Upstream, x.upstream = p.Upstream, x.setup.upstreams[p.Upstream]
			if err = x.checkRoute(method, p.Routes); err == nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	return x.forward(transport.Call{NoUpgrade: true})
}
