package proxy

import (
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/proxy/transport"
)

// serverErrorBody returns the body of the response to a request that could not be read, or to a
// connection for which there was no room. Handle does not see these.
func serverErrorBody(status int, code string) []byte {
	kind, message := tenant.ErrorTypeRequest, "The request could not be read: "+strings.ReplaceAll(code, "_", " ")+"."
	if status >= 500 {
		kind = tenant.ErrorTypeServer
	}
	if status == fasthttp.StatusServiceUnavailable {
		message = transport.Message(code)
	}
	return tenant.ErrorJSON(message, kind, code, "")
}

// serverErrorHead returns Sidenote's header lines for such a response, which has no Report.
func serverErrorHead(code string) []transport.Header {
	return []transport.Header{
		{Name: report.HeaderID, Value: report.NewID(time.Now())},
		{Name: report.HeaderStatus, Value: "refused; reason=" + strings.ReplaceAll(code, "_", "-")},
	}
}

// callError returns the error that the client gets for an error of an upstream call or of its
// preparation.
func (s *Server) callError(err error) error {
	if transport.ClassOf(err) == "" {
		return err
	}
	return s.transportError(err)
}

// transportError returns the error that the client gets for an error of package transport.
func (s *Server) transportError(err error) error {
	switch transport.ClassOf(err) {
	case transport.ClientGone, transport.ClientSlow:
		return errClientGone
	case transport.Internal:
		return errPanic
	case transport.NoRoom:
		return s.noRoom()
	}
	return tenant.TransportError(err)
}
