package proxy

import (
	"fmt"
	"net"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/origin"
	"sidenote/proxy/report"
)

// checkPage refuses requests of pages of other sites. On a loopback address it also
// refuses a host name that is not known to be ours: a page can make its own name
// resolve to this machine (DNS rebinding). The origin is never compared with the host
// name, as after DNS rebinding the two are the same.
func checkPage(ctx *fasthttp.RequestCtx, rules *origin.Rules) error {
	h := &ctx.Request.Header
	for _, value := range h.PeekAll(fasthttp.HeaderOrigin) {
		if !rules.AllowsOrigin(string(value)) {
			return &Error{Reason: report.ReasonOrigin, Param: fasthttp.HeaderOrigin, Message: fmt.Sprintf("Pages of %q may not ask without a tenant's key; list their origin under identity.origins in the configuration.", value)}
		}
	}
	if local, ok := ctx.LocalAddr().(*net.TCPAddr); !ok || !local.IP.IsLoopback() {
		return nil
	}
	for _, host := range [...][]byte{h.Host(), origin.Authority(h.RequestURI())} {
		if !rules.AllowsHost(host) {
			return &Error{Reason: report.ReasonHost, Param: fasthttp.HeaderHost, Message: fmt.Sprintf("Sidenote is not known as %q on this machine; call it by address or as localhost, or list the name under identity.hosts in the configuration.", host)}
		}
	}
	return nil
}
