package proxy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

func TestErrorsOnTheWire(t *testing.T) {
	f := func(err error, status int, kind, code, param, retryAfter string) {
		t.Helper()
		var ctx fasthttp.RequestCtx
		tenant.AsError(err).Write(&ctx)
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
	if body := tenant.AsError(errors.New("dial with sk-secret")).JSON(); bytes.Contains(body, []byte("sk-")) {
		t.Errorf("the cause leaves: %s", body)
	}
}
