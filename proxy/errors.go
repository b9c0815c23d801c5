package proxy

import (
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/apierror"
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
)

// An Error is an answer of Sidenote's own in place of the upstream's.
type Error = apierror.Error

// serverErrorBody is the body of the answer to a request that could not be read, or
// to a connection for which there was no room. Handle does not see these.
func serverErrorBody(status int, code string) []byte {
	kind, message := apierror.TypeRequest, "The request could not be read: "+strings.ReplaceAll(code, "_", " ")+"."
	if status >= 500 {
		kind = apierror.TypeServer
	}
	if status == fasthttp.StatusServiceUnavailable {
		message = "Sidenote has as many connections as it can serve; try again."
	}
	return apierror.JSON(message, kind, code, "")
}

// serverErrorHead returns Sidenote's header lines for such an answer. It has no Report.
func serverErrorHead(code string) []transport.Header {
	return []transport.Header{
		{Name: report.HeaderID, Value: report.NewID(time.Now())},
		{Name: report.HeaderStatus, Value: "refused; reason=" + strings.ReplaceAll(code, "_", "-")},
	}
}

// transportError returns the error that the client gets for an error of package
// transport.
func (s *Server) transportError(err error) error {
	e := &Error{Err: err, Reason: report.ReasonUpstreamBroken, Message: "The upstream broke off before it answered; whether it did the work is not known."}
	switch transport.ClassOf(err) {
	case transport.ClientGone, transport.ClientSlow:
		return errClientGone
	case transport.Internal:
		return errPanic
	case transport.NoRoom:
		return s.noRoom()
	case transport.ClientLate:
		e.Reason, e.Message = report.ReasonBodySlow, "The body of the request came too slowly; try again."
	case transport.ClientBody:
		e.Reason, e.Message = report.ReasonBodyRead, "The body of the request did not arrive whole."
	case transport.BadTarget:
		e.Reason, e.Message = report.ReasonPath, "The request target cannot be forwarded."
	case transport.ConnectFailed:
		e.Reason, e.Message = report.ReasonUpstreamConnect, "The upstream could not be reached; nothing was sent to it."
	case transport.TLSFailed:
		e.Reason, e.Message = report.ReasonUpstreamConnect, "The upstream's TLS could not be verified; nothing was sent to it."
	case transport.ConnectTimeout:
		e.Reason, e.Message = report.ReasonUpstreamTimeout, "The upstream took too long to connect to; nothing was sent to it."
	case transport.FirstByteTimeout, transport.IdleTimeout:
		e.Reason, e.Message = report.ReasonUpstreamTimeout, "The upstream did not answer in time; whether it did the work is not known."
	case transport.BadResponse:
		e.Message = "The upstream's answer could not be read as HTTP."
	case transport.Closed:
		e.Reason, e.Message = report.ReasonShutdown, "Sidenote is shutting down; try again."
	}
	return e
}
