// Package apierror has the answers of Sidenote's own that take the place of an upstream's, in
// the shape of OpenAI's errors.
package apierror

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

// An Error is an answer of Sidenote's own in place of the upstream's. The table in
// answerTo says what clients get for each Reason.
type Error struct {
	Reason  rewrite.Reason
	Param   string // the field or header at fault, "" for none
	Message string // for people: what is wrong, naming the value, and what to do
	Err     error  // the cause, for the log; never sent

	Refusal *budget.Refusal // with ReasonRateLimit and ReasonQuota
	Final   bool            // another try cannot help, as it could with other errors of this Reason
	Wait    string          // when one may, as an upstream told it by Retry-After; "" is the usual time
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

// An answer holds the fields that clients get for an Error. retryAfter is in
// seconds; 0 tells clients that a retry cannot help, and official SDKs then make none.
type answer struct {
	status     int
	kind       string // error.type
	code       string // error.code; "" is the reason with '_' for '-'
	retryAfter int
}

// The values of error.type, which are OpenAI's.
const (
	TypeRequest = "invalid_request_error"
	TypeServer  = "server_error"
)

// answerTo returns what clients get for each reason.
func answerTo(reason rewrite.Reason) answer {
	switch reason {
	case report.ReasonKey:
		return answer{status: 401, kind: TypeRequest}
	case report.ReasonRouteRefused, report.ReasonOrigin, report.ReasonClaim:
		return answer{status: 403, kind: TypeRequest}
	case report.ReasonModel:
		return answer{status: 404, kind: TypeRequest, code: "model_not_found"}
	case report.ReasonMisdirected, report.ReasonHost:
		return answer{status: 421, kind: TypeRequest}
	case rewrite.ReasonTooLarge:
		return answer{status: 413, kind: TypeRequest}
	case report.ReasonCredentials, report.ReasonPath, report.ReasonBodyRead, rewrite.ReasonOption, rewrite.ReasonNotJSON,
		rewrite.ReasonNotChat, report.ReasonUnfit, rewrite.ReasonAmbiguous, rewrite.ReasonTooDeep, rewrite.ReasonEncoded:
		return answer{status: 400, kind: TypeRequest}
	case report.ReasonBodySlow:
		return answer{status: 408, kind: TypeRequest, retryAfter: 1}
	case report.ReasonRateLimit, report.ReasonQuota:
		return answer{status: 429} // the rest is the refusal's
	case report.ReasonNoPrice:
		return answer{status: 403, kind: TypeRequest}
	case report.ReasonLedger:
		return answer{status: 503, kind: TypeServer, retryAfter: 1}
	case rewrite.ReasonOverload:
		return answer{status: 503, kind: TypeServer, code: "overloaded", retryAfter: 1}
	case report.ReasonShutdown:
		return answer{status: 503, kind: TypeServer, retryAfter: 1}
	case rewrite.ReasonUnavailable, rewrite.ReasonIndexing, rewrite.ReasonState, rewrite.ReasonTimeout, rewrite.ReasonError:
		return answer{status: 503, kind: TypeServer, code: "sources_unavailable", retryAfter: 5}
	case report.ReasonUpstreamConnect:
		return answer{status: 502, kind: TypeServer, retryAfter: 1}
	case report.ReasonUpstreamBroken:
		// It is not known whether the model ran, so we neither retry nor advise the
		// client against it.
		return answer{status: 502, kind: TypeServer, retryAfter: 1}
	case report.ReasonStage:
		return answer{status: 502, kind: TypeServer, retryAfter: 1}
	case report.ReasonStageTimeout:
		return answer{status: 504, kind: TypeServer, code: "stage_failed", retryAfter: 1}
	case report.ReasonUpstreamTimeout:
		return answer{status: 504, kind: TypeServer, retryAfter: 1}
	}
	return answer{status: 500, kind: TypeServer, code: "internal"}
}

// Status returns the HTTP status of e.
func (e *Error) Status() int { return answerTo(e.Reason).status }

// JSON returns e in the shape of OpenAI's errors. Bytes that are not UTF-8 in
// the message become U+FFFD.
func (e *Error) JSON() []byte {
	a := answerTo(e.Reason)
	if e.Refusal != nil {
		a.kind, a.code = e.Refusal.Kind()
	}
	if a.code == "" {
		a.code = strings.ReplaceAll(string(e.Reason), "-", "_")
	}
	return JSON(e.Message, a.kind, a.code, e.Param)
}

// JSON returns an error in OpenAI's shape; param "" is null.
func JSON(message, kind, code, param string) []byte {
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

// Write makes e the response of ctx.
func (e *Error) Write(ctx *fasthttp.RequestCtx) {
	closing := ctx.Response.ConnectionClose()
	ctx.Response.Reset()
	if closing {
		ctx.SetConnectionClose()
	}
	ctx.Response.SetStatusCode(e.Status())
	e.headers(ctx.Response.Header.Set)
	ctx.Response.SetBodyRaw(e.JSON())
}

// WriteHTTP answers with e on a server of net/http.
func (e *Error) WriteHTTP(w http.ResponseWriter) {
	e.headers(w.Header().Set)
	w.WriteHeader(e.Status())
	_, _ = w.Write(e.JSON()) // a client that has left needs no answer
}

// headers sets the type of the body, and what tells clients whether to try again.
func (e *Error) headers(set func(name, value string)) {
	a := answerTo(e.Reason)
	set("Content-Type", "application/json")
	if e.Refusal != nil {
		e.Refusal.Headers(set)
	} else if a.retryAfter > 0 && !e.Final {
		set("Retry-After", cmp.Or(e.Wait, fmt.Sprint(a.retryAfter)))
	} else {
		set("X-Should-Retry", "false")
	}
	if a.status == http.StatusUnauthorized {
		set("Www-Authenticate", "Bearer")
	}
}

// As returns the Error that clients get for err. An *Error stays as it is, errors
// of bodies and options keep their texts, and the text of any other error goes to the
// log only.
func As(err error) *Error {
	var (
		own    *Error
		body   *rewrite.BodyError
		option *rewrite.OptionError
		claim  *filter.ClaimError
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
	return &Error{Reason: report.ReasonInternal, Message: "Internal error of Sidenote; its log has details under the request's Sidenote-Id.", Err: err}
}
