package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/transport"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// An Error is an answer of Sidenote's own in place of the upstream's. The table in
// errorAnswerFor says what clients get for each Reason.
type Error struct {
	Reason  rewrite.Reason
	Param   string // the field or header at fault, "" for none
	Message string // for people: what is wrong, naming the value, and what to do
	Err     error  // the cause, for the log; never sent
}

// Error returns reason, message and cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Reason, e.Message, e.Err)
	}
	return string(e.Reason) + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// An errorAnswer holds the fields that clients get for an Error. retryAfter is in
// seconds; 0 tells clients that a retry cannot help, and official SDKs then make none.
type errorAnswer struct {
	status     int
	kind       string // error.type
	code       string // error.code; "" is the reason with '_' for '-'
	retryAfter int
}

// The values of error.type, which are OpenAI's.
const (
	typeRequest = "invalid_request_error"
	typeServer  = "server_error"
)

// errorAnswerFor returns what clients get for each reason.
func errorAnswerFor(reason rewrite.Reason) errorAnswer {
	switch reason {
	case report.ReasonKey:
		return errorAnswer{status: 401, kind: typeRequest}
	case report.ReasonRouteRefused, report.ReasonOrigin, report.ReasonClaim:
		return errorAnswer{status: 403, kind: typeRequest}
	case report.ReasonModel:
		return errorAnswer{status: 404, kind: typeRequest, code: "model_not_found"}
	case report.ReasonMisdirected, report.ReasonHost:
		return errorAnswer{status: 421, kind: typeRequest}
	case rewrite.ReasonTooLarge:
		return errorAnswer{status: 413, kind: typeRequest}
	case report.ReasonCredentials, report.ReasonPath, report.ReasonBodyRead, rewrite.ReasonOption, rewrite.ReasonNotJSON,
		rewrite.ReasonNotChat, rewrite.ReasonAmbiguous, rewrite.ReasonTooDeep, rewrite.ReasonEncoded:
		return errorAnswer{status: 400, kind: typeRequest}
	case report.ReasonBodySlow:
		return errorAnswer{status: 408, kind: typeRequest, retryAfter: 1}
	case rewrite.ReasonOverload:
		return errorAnswer{status: 503, kind: typeServer, code: "overloaded", retryAfter: 1}
	case report.ReasonShutdown:
		return errorAnswer{status: 503, kind: typeServer, retryAfter: 1}
	case rewrite.ReasonUnavailable, rewrite.ReasonIndexing, rewrite.ReasonTimeout, rewrite.ReasonError:
		return errorAnswer{status: 503, kind: typeServer, code: "sources_unavailable", retryAfter: 5}
	case report.ReasonUpstreamConnect:
		return errorAnswer{status: 502, kind: typeServer, retryAfter: 1}
	case report.ReasonUpstreamBroken:
		// It is not known whether the model ran, so we neither retry nor advise the
		// client against it.
		return errorAnswer{status: 502, kind: typeServer, retryAfter: 1}
	case report.ReasonUpstreamTimeout:
		return errorAnswer{status: 504, kind: typeServer, retryAfter: 1}
	}
	return errorAnswer{status: 500, kind: typeServer, code: "internal"}
}

// Status returns the HTTP status of e.
func (e *Error) Status() int { return errorAnswerFor(e.Reason).status }

// JSON returns e in the shape of OpenAI's errors. Bytes that are not UTF-8 in
// the message become U+FFFD.
func (e *Error) JSON() []byte {
	a := errorAnswerFor(e.Reason)
	if a.code == "" {
		a.code = strings.ReplaceAll(string(e.Reason), "-", "_")
	}
	return ErrorJSON(e.Message, a.kind, a.code, e.Param)
}

// ErrorJSON returns an error in OpenAI's shape; param "" is null.
func ErrorJSON(message, kind, code, param string) []byte {
	body := struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}{Message: message, Type: kind, Code: code}
	if param != "" {
		body.Param = &param
	}
	out, err := json.Marshal(map[string]any{"error": body})
	if err != nil {
		panic("BUG: error body of strings did not encode: " + err.Error())
	}
	return out
}

// serverErrorBody is the body of the answer to a request that could not be read, or
// to a connection for which there was no room. Handle does not see these.
func serverErrorBody(status int, code string) []byte {
	kind, message := typeRequest, "The request could not be read: "+strings.ReplaceAll(code, "_", " ")+"."
	if status >= 500 {
		kind = typeServer
	}
	if status == fasthttp.StatusServiceUnavailable {
		message = "Sidenote has as many connections as it can serve; try again."
	}
	return ErrorJSON(message, kind, code, "")
}

// serverErrorHead returns Sidenote's header lines for such an answer. It has no Report.
func serverErrorHead(code string) []transport.Header {
	return []transport.Header{
		{Name: report.HeaderID, Value: report.NewID(time.Now())},
		{Name: report.HeaderStatus, Value: "refused; reason=" + strings.ReplaceAll(code, "_", "-")},
	}
}

// Write makes e the response of ctx: status, body and the headers that tell
// clients whether to try again.
func (e *Error) Write(ctx *fasthttp.RequestCtx) {
	a := errorAnswerFor(e.Reason)
	closing := ctx.Response.ConnectionClose()
	ctx.Response.Reset()
	if closing {
		ctx.SetConnectionClose()
	}
	ctx.Response.SetStatusCode(a.status)
	ctx.Response.Header.SetContentType("application/json")
	if a.retryAfter > 0 {
		ctx.Response.Header.Set("Retry-After", fmt.Sprint(a.retryAfter))
	} else {
		ctx.Response.Header.Set("X-Should-Retry", "false")
	}
	if a.status == fasthttp.StatusUnauthorized {
		ctx.Response.Header.Set("Www-Authenticate", "Bearer")
	}
	ctx.Response.SetBodyRaw(e.JSON())
}

// AsError returns the Error that clients get for err. An *Error stays as it is, errors
// of bodies and options keep their texts, and the text of any other error goes to the
// log only.
func AsError(err error) *Error {
	var (
		own    *Error
		body   *rewrite.BodyError
		option *rewrite.OptionError
		claim  *retrieval.ClaimError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &body):
		return &Error{Reason: body.Reason, Param: body.Param, Message: body.Message, Err: err}
	case errors.As(err, &claim):
		return &Error{Reason: report.ReasonClaim, Message: fmt.Sprintf("What you may see depends on a claim of your token: %v.", claim), Err: err}
	case errors.As(err, &option):
		return &Error{Reason: rewrite.ReasonOption, Param: option.Param, Message: option.Error(), Err: err}
	}
	return &Error{Reason: report.ReasonInternal, Message: "Sidenote met an error of its own; the log has it under the request's Sidenote-Id.", Err: err}
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
