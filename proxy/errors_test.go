package proxy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

func TestErrorsOnTheWire(t *testing.T) {
	f := func(err error, status int, kind, code, param, retryAfter string) {
		t.Helper()
		var ctx fasthttp.RequestCtx
		tenant.AsError(err).Write(&ctx, chat.Completions, report.IDs{})
		var got struct {
			Error struct {
				Message, Type, Code string
				Param               *string
			}
		}
		if err := json.Unmarshal(ctx.Response.Body(), &got); err != nil {
			t.Fatal(err)
		}
		p := "null"
		if got.Error.Param != nil {
			p = *got.Error.Param
		}
		line := fmt.Sprint(ctx.Response.StatusCode(), got.Error.Type, got.Error.Code, p,
			string(ctx.Response.Header.Peek("Retry-After")), string(ctx.Response.Header.Peek("X-Should-Retry")))
		retry := ""
		if retryAfter == "" {
			retry = "false"
		}
		if want := fmt.Sprint(status, kind, code, param, retryAfter, retry); line != want {
			t.Errorf("%v:\ngot  %s\nwant %s", err, line, want)
		}
		if got.Error.Message == "" {
			t.Errorf("%v: no message", err)
		}
	}
	const request, server = "invalid_request_error", "server_error"
	own := func(r rewrite.Reason) error { return &tenant.APIError{Reason: r, Message: "m"} }
	f(&chat.Error{Reason: rewrite.ReasonAmbiguous, Param: "messages", Message: "twice"}, 400, request, "ambiguous_body", "messages", "")
	f(&chat.Error{Reason: rewrite.ReasonNotJSON, Message: "no"}, 400, request, "not_json", "null", "")
	f(fmt.Errorf("read: %w", &rewrite.OptionError{Param: "Sidenote-Mode", Reason: "no"}), 400, request, "invalid_option", "Sidenote-Mode", "")
	f(own(rewrite.ReasonTooLarge), 413, request, "body_too_large", "null", "")
	f(own(report.ReasonKey), 401, request, "invalid_api_key", "null", "")
	f(own(report.ReasonModel), 404, request, "model_not_found", "null", "")
	f(own(report.ReasonClaim), 403, request, "missing_claim", "null", "")
	f(own(report.ReasonRouteRefused), 403, request, "route_not_allowed", "null", "")
	f(own(report.ReasonMisdirected), 421, request, "misdirected", "null", "")
	f(own(report.ReasonBodySlow), 408, request, "request_timeout", "null", "1")
	f(own(rewrite.ReasonOverload), 503, server, "overloaded", "null", "1")
	f(own(rewrite.ReasonTimeout), 503, server, "sources_unavailable", "null", "5")
	f(own(report.ReasonUpstreamConnect), 502, server, "upstream_connect", "null", "1")
	f(own(report.ReasonUpstreamTimeout), 504, server, "upstream_timeout", "null", "1")
	f(errors.New("secret sk-1"), 500, server, "internal", "null", "")
}

func TestInternalErrorsTellNothing(t *testing.T) {
	if body := tenant.AsError(errors.New("dial with sk-secret")).JSON(chat.Completions, report.IDs{}); bytes.Contains(body, []byte("sk-")) {
		t.Errorf("the cause leaves: %s", body)
	}
}

// Errors on routes of the Messages API have its shape, and name the parameter in the message.
func TestErrorsOfMessages(t *testing.T) {
	f := func(err error, status int, want string, headers ...string) {
		t.Helper()
		var ctx fasthttp.RequestCtx
		tenant.AsError(err).Write(&ctx, chat.Messages, report.IDs{})
		if got := string(ctx.Response.Body()); ctx.Response.StatusCode() != status || got != `{"type":"error","error":{`+want+`}}` {
			t.Errorf("%v: %d %s", err, ctx.Response.StatusCode(), got)
		}
		for i := 0; i < len(headers); i += 2 {
			if got := string(ctx.Response.Header.Peek(headers[i])); got != headers[i+1] {
				t.Errorf("%v: %s is %q, want %q", err, headers[i], got, headers[i+1])
			}
		}
	}
	own := func(r rewrite.Reason) error { return &tenant.APIError{Reason: r, Message: "m"} }
	f(&chat.Error{Reason: rewrite.ReasonAmbiguous, Param: "messages", Message: "twice"}, 400, `"type":"invalid_request_error","message":"messages: twice"`, "X-Should-Retry", "false")
	f(&chat.Error{Reason: rewrite.ReasonNotChat, Param: "max_tokens", Message: "max_tokens: -1 is not a number"}, 400, `"type":"invalid_request_error","message":"max_tokens: -1 is not a number"`)
	f(own(report.ReasonKey), 401, `"type":"authentication_error","message":"m"`)
	f(own(report.ReasonRouteRefused), 403, `"type":"permission_error","message":"m"`)
	f(own(report.ReasonModel), 404, `"type":"not_found_error","message":"m"`)
	f(own(report.ReasonBodySlow), 408, `"type":"timeout_error","message":"m"`, "Retry-After", "1")
	f(own(rewrite.ReasonTooLarge), 413, `"type":"request_too_large","message":"m"`)
	f(own(report.ReasonHost), 421, `"type":"invalid_request_error","message":"m"`)
	f(own(report.ReasonInternal), 500, `"type":"api_error","message":"m"`, "X-Should-Retry", "false")
	f(own(report.ReasonUpstreamConnect), 502, `"type":"api_error","message":"m"`, "Retry-After", "1")
	f(own(rewrite.ReasonOverload), 503, `"type":"overloaded_error","message":"m"`, "Retry-After", "1")
	f(own(report.ReasonUpstreamTimeout), 504, `"type":"timeout_error","message":"m"`, "Retry-After", "1")
	refusal := &budget.Refusal{Window: budget.RequestsPerMinute, Wait: 1500 * time.Millisecond}
	refusal.Levels[budget.RequestsPerMinute] = budget.Level{Limit: 60, Left: 0, Reset: time.Hour}
	before := time.Now()
	f(&tenant.APIError{Reason: report.ReasonRateLimit, Message: "m", Refusal: refusal}, 429, `"type":"rate_limit_error","message":"m"`,
		"Retry-After", "2", "Retry-After-Ms", "1500", "Anthropic-Ratelimit-Requests-Limit", "60", "Anthropic-Ratelimit-Requests-Remaining", "0",
		"Anthropic-Ratelimit-Tokens-Limit", "", "X-Ratelimit-Limit-Requests", "")
	var ctx fasthttp.RequestCtx
	tenant.AsError(&tenant.APIError{Reason: report.ReasonRateLimit, Refusal: refusal}).Write(&ctx, chat.Messages, report.IDs{})
	reset, err := time.Parse(time.RFC3339, string(ctx.Response.Header.Peek("Anthropic-Ratelimit-Requests-Reset")))
	if d := reset.Sub(before); err != nil || d < time.Hour || d > time.Hour+time.Minute {
		t.Errorf("reset at %v, %v", reset, err)
	}
}
