package proxy_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// messagesRequest returns a request to the Messages API with these header lines.
func messagesRequest(body string, lines ...string) string {
	return strings.Replace(chatRequest(body, lines...), "/v1/chat/completions", "/v1/messages", 1)
}

// A caller of the Messages API is known by its key in either header, which stays here. The headers
// of the API pass in both directions.
func TestMessagesHeaders(t *testing.T) {
	const ask = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`
	u := newUpstream(t, func(_ seen, w io.Writer) {
		writeWhole(w, "200 OK\r\nContent-Type: application/json\r\nRequest-Id: req_1\r\nAnthropic-Ratelimit-Tokens-Remaining: 7\r\nAnthropic-Organization-Id: o", `{"content":[]}`)
	})
	for name, c := range map[string]struct {
		key  string // Sidenote's key for the upstream
		line string
	}{
		"x-api-key":                {"", "X-Api-Key: sk-sidenote-acme"},
		"bearer":                   {"", "Authorization: Bearer sk-sidenote-acme"},
		"x-api-key, key of ours":   {"sk-up", "x-api-key: sk-sidenote-acme"},
		"bearer, with key of ours": {"sk-up", "Authorization: Bearer sk-sidenote-acme"},
	} {
		up := proxy.Upstream{BaseURL: u.url}
		if c.key != "" {
			up.APIKey = proxy.NewSecret(c.key)
		}
		acme := policyOf("acme", func(p *tenant.Policy) { p.Routes = []string{"/messages"} })
		g := start(t, proxy.Config{Upstreams: map[string]proxy.Upstream{"stub": up}, Tenants: tenant.Tenants{Keys: []tenant.Key{keyOf("sk-sidenote-acme", acme)}}}, nil)
		resp := g.raw(t, messagesRequest(ask, c.line, "anthropic-version: 2023-06-01", "anthropic-beta: a,b"))
		if h := resp.Header; resp.StatusCode != 200 || h.Get("Request-Id") != "req_1" || h.Get("Anthropic-Ratelimit-Tokens-Remaining") != "7" || h.Get("Anthropic-Organization-Id") != "o" {
			t.Errorf("%s: %d %v", name, resp.StatusCode, h)
		}
		s, auth := u.next(t), ""
		if c.key != "" {
			auth = "Bearer " + c.key
		}
		if all := strings.Join(s.head, "\n"); s.header("Anthropic-Version") != "2023-06-01" || s.header("Anthropic-Beta") != "a,b" || s.header("Authorization") != auth || strings.Contains(all, "sidenote-acme") {
			t.Errorf("%s: the upstream got %s", name, all)
		}
		g.reports.next(t)
	}
}

// Sidenote's own errors have the shape of the API whose route was called.
func TestMessagesErrors(t *testing.T) {
	u := newUpstream(t, func(_ seen, w io.Writer) { _ = w.(io.Closer).Close() })
	acme := limited(t, budget.Limits{budget.RequestsPerMinute: 1}, func(p *tenant.Policy) { p.Routes = []string{"/messages"} })
	g := openLimited(t, newTill(t), u, acme, nil)
	const ask = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`
	for _, want := range []string{
		`502 {"type":"error","error":{"type":"api_error","message":"The upstream broke off before it answered; whether it did the work is not known."}}`,
		`429 {"type":"error","error":{"type":"rate_limit_error","message":"Your limit requests_per_minute, 1, is reached; try again in`,
	} {
		resp := g.raw(t, messagesRequest(ask))
		body, err := io.ReadAll(resp.Body)
		if got := resp.Status[:4] + string(body); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if resp.StatusCode == 429 && (resp.Header.Get("Anthropic-Ratelimit-Requests-Limit") != "1" || resp.Header.Get("X-Ratelimit-Limit-Requests") != "") {
			t.Errorf("headers %v", resp.Header)
		}
		if resp.Header.Get(report.HeaderID) == "" {
			t.Error("the answer has no id")
		}
		g.reports.next(t)
	}
}

// A message that is too long for the upstream because of the sources is sent once more with those
// that fit.
func TestTooLongMessageIsSentAgain(t *testing.T) {
	u := refusing(t, "400 Bad Request\r\nContent-Type: application/json\r\n\r\n"+
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 100400 tokens > 100000 maximum"},"request_id":"req_1"}`)
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
		Tenants:   tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) { p.RetryTooLong = true })},
	}, retrieval.Func(fiveSources))
	resp := g.raw(t, messagesRequest(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"How long is leave?"}]}`))
	first, second := u.next(t).body, u.next(t).body
	if status := resp.Header.Get(report.HeaderStatus); resp.StatusCode != 200 || !strings.Contains(status, "retry=context-length") {
		t.Errorf("%d %s", resp.StatusCode, status)
	}
	if all, kept := strings.Count(first, "<source "), strings.Count(second, "<source "); all != 5 || kept == 0 || kept >= all {
		t.Errorf("%d sources, then %d: %s", all, kept, second)
	}
	g.reports.next(t)
}

// Vertex AI and Bedrock take the same bodies on paths with the model's name. A request with a
// signature of AWS passes unchanged, as the signature covers the body.
func TestMessagesOfClouds(t *testing.T) {
	const body = `{"anthropic_version":"vertex-2023-10-16","max_tokens":9,"messages":[{"role":"user","content":"How long is parental leave?"}]}`
	for _, c := range []struct{ path, authorization, status, model string }{
		{"/v1/projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-6:streamRawPredict", "Bearer x", "injected; api=messages", "claude-sonnet-4-6"},
		{"/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", "Bearer x", "injected; api=messages", ""},
		{"/model/anthropic.claude-sonnet-4-6/invoke", "Bearer x", "injected; api=messages", "anthropic.claude-sonnet-4-6"},
		{"/model/anthropic.claude-sonnet-4-6/invoke", "AWS4-HMAC-SHA256 Credential=x", "untouched; reason=route", ""},
	} {
		u := newUpstream(t, answerJSON(`{}`))
		g := open(t, u, nil)
		resp := g.raw(t, strings.Replace(strings.Replace(chatRequest(body), "/v1/chat/completions", c.path, 1), "\r\n", "\r\nAuthorization: "+c.authorization+"\r\n", 1))
		r := g.reports.next(t)
		if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got, c.status) || r.Rewrite.Ledger.Model != c.model {
			t.Errorf("%s: %s, model %q", c.path, got, r.Rewrite.Ledger.Model)
		}
		if s := <-u.seen; (s.body == body) != strings.HasPrefix(c.status, "untouched") || !strings.Contains(s.line, c.path+" ") {
			t.Errorf("%s: sent %s %s", c.path, s.line, s.body)
		}
	}
}

// The numbers of citations follow the application's own search results, wherever these are: in the
// question, or in results of tools before or after it.
func TestCitationsFollowTheSearchResultsOfMessages(t *testing.T) {
	const (
		result = `{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}],"citations":{"enabled":true}}`
		round  = `{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[` + result + `]}]}`
		ask    = `{"role":"user","content":"How long is parental leave?"}`
	)
	for name, c := range map[string]struct {
		messages string
		want     string
	}{
		"none":                         {ask, `"search_result_index":0,`},
		"in the question":              {`{"role":"user","content":[` + result + `,{"type":"text","text":"How long is parental leave?"}]}`, `"search_result_index":1,`},
		"of a tool, before":            {ask + "," + round + `,{"role":"assistant","content":"Long."},` + ask, `"search_result_index":1,`},
		"of a tool, behind":            {ask + "," + round, `"search_result_index":1,`},
		"of a tool, before and behind": {ask + "," + round + `,{"role":"assistant","content":"Long."},` + ask + "," + round, `"search_result_index":2,`},
	} {
		u := newUpstream(t, answering("200 OK\r\nContent-Type: application/json", `{"type":"message","content":[{"type":"text","text":"Long [1]."}]}`))
		g := checked(t, u, "", nil)
		resp := g.raw(t, messagesRequest(`{"model":"m","max_tokens":5,"messages":[`+c.messages+`]}`))
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: %s %s, %v", name, resp.Status, body, err)
		}
		g.reports.next(t)
	}
}

// A fixed answer is recorded with the reason of its API. A request that only warms the upstream's
// prompt cache gets none: it is sent, without sources.
func TestFixedAnswersOfMessages(t *testing.T) {
	for limit, want := range map[string]string{"9": "answered; reason=no-match", "0": "untouched; reason=no-match"} {
		u, log := newUpstream(t, answerJSON(`{"type":"message","content":[],"stop_reason":"max_tokens"}`)), &bodyLog{}
		g := start(t, proxy.Config{
			Bodies: log, Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
			Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
				p.Rewrite.OnEmpty, p.Rewrite.EmptyAnswer = rewrite.EmptyRefuse, "Nobody knows."
			})},
		}, retrieval.Func(nothing))
		resp := g.raw(t, messagesRequest(`{"model":"m","max_tokens":`+limit+`,"messages":[{"role":"user","content":"How long is parental leave?"}]}`))
		r := g.reports.next(t)
		if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got, want) || len(u.seen) > 0 != (limit == "0") {
			t.Errorf("max_tokens %s: %s, %d sent", limit, got, len(u.seen))
		}
		if limit != "0" && fmt.Sprint(log.said) != "["+r.ID+` by acme: 13 "Nobody knows." end_turn ]` {
			t.Errorf("%q", log.said)
		}
	}
}
