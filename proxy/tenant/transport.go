package tenant

import (
	"fmt"

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
		e.Reason = report.ReasonConnectTimeout
		e.Message = "The upstream could not be connected to" + within(err, "connect") + "; nothing was sent to it."
	case transport.FirstByteTimeout:
		e.Reason = report.ReasonUpstreamTimeout
		e.Message = "The upstream did not answer" + within(err, "first_byte") + "; whether it did the work is not known."
	case transport.IdleTimeout:
		e.Reason = report.ReasonUpstreamTimeout
		e.Message = "The upstream stopped in the middle of its answer and sent nothing more" + within(err, "idle") + "."
	case transport.BadResponse:
		e.Message = "The upstream's answer could not be read as HTTP."
	case transport.Closed:
		e.Reason, e.Message = report.ReasonShutdown, "Sidenote is shutting down; try again."
	}
	return e
}

// within returns the time limit that err exceeded and its name in the configuration, for a message.
func within(err error, name string) string {
	limit := transport.LimitOf(err)
	if limit == 0 {
		return " in time"
	}
	return fmt.Sprintf(" within %s (timeouts.%s)", limit, name)
}
