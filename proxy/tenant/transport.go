package tenant

import (
	"sidenote/proxy/report"
	"sidenote/proxy/transport"
)

// TransportError returns what the client gets for an error of package transport, except for the
// client leaving and lack of memory, which callers handle.
func TransportError(err error) *APIError {
	e := &APIError{Err: err, Reason: report.ReasonUpstreamBroken, Message: "The upstream broke off before it answered; whether it did the work is not known."}
	switch transport.ClassOf(err) {
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
