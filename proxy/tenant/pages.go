package tenant

import (
	"fmt"
	"net"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
)

// CheckPage refuses requests of web pages of other sites. On a loopback address it also refuses
// unknown host names, since a page can make its own name resolve to this machine (DNS rebinding).
// Comparing the origin with the host name would not help: after DNS rebinding they are equal.
func (d *Directory) CheckPage(s Sender) error {
	for _, value := range s.Header.PeekAll(fasthttp.HeaderOrigin) {
		if !d.keyless.AllowsOrigin(string(value)) {
			return &APIError{Reason: report.ReasonOrigin, Param: fasthttp.HeaderOrigin, Message: fmt.Sprintf("Pages of %q may not ask without a tenant's key; list their origin under identity.origins in the configuration.", value)}
		}
	}
	if local, ok := s.Local.(*net.TCPAddr); !ok || !local.IP.IsLoopback() {
		return nil
	}
	for _, host := range [...][]byte{s.Header.Host(), Authority(s.Header.RequestURI())} {
		if !d.keyless.AllowsHost(host) {
			return &APIError{Reason: report.ReasonHost, Param: fasthttp.HeaderHost, Message: fmt.Sprintf("Sidenote is not known as %q on this machine; call it by address or as localhost, or list the name under identity.hosts in the configuration.", host)}
		}
	}
	return nil
}
