package tenant

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
	"sidenote/rewrite/chat"
)

// An APIError is an error response that Sidenote sends instead of an answer of the upstream.
// answerTo maps each Reason to its status, type and code.
type APIError struct {
	Reason  rewrite.Reason
	Param   string // the request field or header at fault; "" for none
	Message string // for people: what is wrong, with the value, and what to do
	Err     error  // the cause, for the log; never sent

	Refusal *budget.Refusal // set with ReasonRateLimit and ReasonQuota
	Final   bool            // a retry cannot help, even if it usually can for this Reason
	Wait    string          // Retry-After of the upstream, passed on; "" means the default of the Reason
}

// Error returns reason, message and cause.
func (e *APIError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Reason, e.Message, e.Err)
	}
	return string(e.Reason) + ": " + e.Message
}

// Unwrap returns the cause.
func (e *APIError) Unwrap() error { return e.Err }

// An errorAnswer holds the fields that clients get for an APIError. retryAfter is in seconds; 0
// means that a retry cannot help, and makes official SDKs not retry.
type errorAnswer struct {
	status     int
	kind       string // error.type
	code       string // error.code; "" means the reason with '_' for '-'
	retryAfter int
}

// messagesKind returns error.type in the Messages API.
func (a errorAnswer) messagesKind() string {
	switch a.status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 408, 504:
		return "timeout_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503:
		return "overloaded_error"
	}
	if a.status >= 500 {
		return "api_error"
	}
	return ErrorTypeRequest
}

// The values of error.type, as OpenAI uses them.
const (
	ErrorTypeRequest = "invalid_request_error"
	ErrorTypeServer  = "server_error"
)

// answerTo returns the status and error fields for reason.
func answerTo(reason rewrite.Reason) errorAnswer {
	switch reason {
	case report.ReasonKey:
		return errorAnswer{status: 401, kind: ErrorTypeRequest}
	case report.ReasonRouteRefused, report.ReasonOrigin, report.ReasonClaim:
		return errorAnswer{status: 403, kind: ErrorTypeRequest}
	case report.ReasonModel:
		return errorAnswer{status: 404, kind: ErrorTypeRequest, code: "model_not_found"}
	case report.ReasonFeedback:
		return errorAnswer{status: 404, kind: ErrorTypeRequest}
	case report.ReasonMisdirected, report.ReasonHost:
		return errorAnswer{status: 421, kind: ErrorTypeRequest}
	case rewrite.ReasonTooLarge:
		return errorAnswer{status: 413, kind: ErrorTypeRequest}
	case report.ReasonCredentials, report.ReasonPath, report.ReasonBodyRead, rewrite.ReasonOption, rewrite.ReasonNotJSON,
		rewrite.ReasonNotChat, report.ReasonUnfit, rewrite.ReasonAmbiguous, rewrite.ReasonTooDeep, rewrite.ReasonEncoded:
		return errorAnswer{status: 400, kind: ErrorTypeRequest}
	case report.ReasonBodySlow:
		return errorAnswer{status: 408, kind: ErrorTypeRequest, retryAfter: 1}
	case report.ReasonRateLimit, report.ReasonQuota:
		return errorAnswer{status: 429} // the Refusal has the rest
	case report.ReasonNoPrice:
		return errorAnswer{status: 403, kind: ErrorTypeRequest}
	case report.ReasonLedger:
		return errorAnswer{status: 503, kind: ErrorTypeServer, retryAfter: 1}
	case rewrite.ReasonOverload:
		return errorAnswer{status: 503, kind: ErrorTypeServer, code: "overloaded", retryAfter: 1}
	case report.ReasonShutdown:
		return errorAnswer{status: 503, kind: ErrorTypeServer, retryAfter: 1}
	case rewrite.ReasonUnavailable, rewrite.ReasonIndexing, rewrite.ReasonState, rewrite.ReasonTimeout, rewrite.ReasonError:
		return errorAnswer{status: 503, kind: ErrorTypeServer, code: "sources_unavailable", retryAfter: 5}
	case report.ReasonUpstreamConnect:
		return errorAnswer{status: 502, kind: ErrorTypeServer, retryAfter: 1}
	case report.ReasonUpstreamBroken:
		// The model may or may not have run: Sidenote does not retry, but the client may.
		return errorAnswer{status: 502, kind: ErrorTypeServer, retryAfter: 1}
	case report.ReasonStage:
		return errorAnswer{status: 502, kind: ErrorTypeServer, retryAfter: 1}
	case report.ReasonStageTimeout:
		return errorAnswer{status: 504, kind: ErrorTypeServer, code: "stage_failed", retryAfter: 1}
	case report.ReasonUpstreamTimeout, report.ReasonConnectTimeout:
		return errorAnswer{status: 504, kind: ErrorTypeServer, retryAfter: 1}
	}
	return errorAnswer{status: 500, kind: ErrorTypeServer, code: "internal"}
}

// Status returns the HTTP status of e.
func (e *APIError) Status() int { return answerTo(e.Reason).status }

// JSON returns e in the shape of the API's errors, with the ids of the request beside it. Invalid
// UTF-8 in the message becomes U+FFFD.
func (e *APIError) JSON(api chat.API, ids report.IDs) []byte {
	a := answerTo(e.Reason)
	if api == chat.Messages {
		return e.messagesJSON(a.messagesKind(), ids)
	}
	if e.Refusal != nil {
		a.kind, a.code = e.Refusal.Kind()
	}
	if a.code == "" {
		a.code = strings.ReplaceAll(string(e.Reason), "-", "_")
	}
	return errorJSON(e.Message, a.kind, a.code, e.Param, ids)
}

// messagesJSON returns e in the shape of the Messages API, which names what is at fault in the
// message.
func (e *APIError) messagesJSON(kind string, ids report.IDs) []byte {
	type fields struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	message := e.Message
	if !strings.Contains(message, e.Param) {
		message = e.Param + ": " + message
	}
	return errorBody(struct {
		Type  string `json:"type"`
		Error fields `json:"error"`
		report.IDs
	}{"error", fields{kind, message}, ids})
}

// errorBody returns the JSON of an error.
func errorBody(body any) []byte {
	out, err := json.Marshal(body)
	if err != nil {
		panic("BUG: error body of strings did not encode: " + err.Error())
	}
	return out
}

// ErrorJSON returns an error in OpenAI's shape. If param is "", it is null in the JSON.
func ErrorJSON(message, kind, code, param string) []byte {
	return errorJSON(message, kind, code, param, report.IDs{})
}

func errorJSON(message, kind, code, param string, ids report.IDs) []byte {
	body := struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}{Message: message, Type: kind, Code: code}
	if param != "" {
		body.Param = &param
	}
	return errorBody(struct {
		Error any `json:"error"`
		report.IDs
	}{body, ids})
}

// Write replaces the response of ctx with e, in the form of JSON.
func (e *APIError) Write(ctx *fasthttp.RequestCtx, api chat.API, ids report.IDs) {
	closing := ctx.Response.ConnectionClose()
	ctx.Response.Reset()
	if closing {
		ctx.SetConnectionClose()
	}
	ctx.Response.SetStatusCode(e.Status())
	e.headers(api, ctx.Response.Header.Set)
	ctx.Response.SetBodyRaw(e.JSON(api, ids))
}

// WriteHTTP writes e to a net/http response, in OpenAI's form.
func (e *APIError) WriteHTTP(w http.ResponseWriter) {
	e.headers(chat.Completions, w.Header().Set)
	w.WriteHeader(e.Status())
	_, _ = w.Write(e.JSON(chat.Completions, report.IDs{})) // write errors mean that the client has left
}

// headers sets Content-Type and the headers that tell clients whether to retry.
func (e *APIError) headers(api chat.API, set func(name, value string)) {
	a := answerTo(e.Reason)
	set("Content-Type", "application/json")
	if e.Refusal != nil {
		e.Refusal.Headers(api == chat.Messages, set)
	} else if a.retryAfter > 0 && !e.Final {
		set("Retry-After", cmp.Or(e.Wait, fmt.Sprint(a.retryAfter)))
	} else {
		set("X-Should-Retry", "false")
	}
	if a.status == http.StatusUnauthorized {
		set("Www-Authenticate", "Bearer")
	}
}

// AsError converts err to the APIError that the client gets. An *APIError is returned as it is,
// and errors of bodies and options keep their texts; the text of any other error only goes to the
// log.
func AsError(err error) *APIError {
	var (
		own    *APIError
		body   *chat.Error
		option *rewrite.OptionError
		claim  *filter.ClaimError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &body):
		return &APIError{Reason: body.Reason, Param: body.Param, Message: body.Message, Err: err}
	case errors.As(err, &claim):
		return &APIError{Reason: report.ReasonClaim, Message: fmt.Sprintf("Access depends on a claim that your token lacks or that is invalid: %v.", claim), Err: err}
	case errors.As(err, &option):
		return &APIError{Reason: rewrite.ReasonOption, Param: option.Param, Message: option.Error(), Err: err}
	}
	return &APIError{Reason: report.ReasonInternal, Message: "Internal error of Sidenote; its log has details under the request's Sidenote-Id.", Err: err}
}
