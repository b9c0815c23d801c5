package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
)

// T11: the policy alone selects the upstream. No target, host, header or body field that other
// gateways read does. Hosts named there are not called, and the upstream's key is sent to the
// upstream only.
func TestT11UpstreamIsNotChosen(t *testing.T) {
	named := newUpstream(t, answerJSON(`{"who":"named"}`))
	u := newUpstream(t, answerJSON(`{"who":"ours"}`))
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{
			"stub":  {BaseURL: u.url, APIKey: proxy.NewSecret("sk-ours")},
			"other": {BaseURL: named.url, APIKey: proxy.NewSecret("sk-other")},
		},
		Tenants: tenant.Tenants{Keys: []tenant.Key{keyOf("ka", policyOf("acme", nil))}},
	}, nil)
	host := named.url.Host
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	requests := map[string]string{
		"Host":                    fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer ka\r\nContent-Length: %d\r\n\r\n{%s}", host, len(messages)+2, messages),
		"an absolute target":      fmt.Sprintf("POST http://%s/v1/chat/completions HTTP/1.1\r\nHost: %[1]s\r\nAuthorization: Bearer ka\r\nContent-Length: %d\r\n\r\n{%s}", host, len(messages)+2, messages),
		"the name of an upstream": chatRequest(`{"model":"other/gpt-5","provider":"other","upstream":"other",`+messages+`}`, "Authorization: Bearer ka", "X-Upstream: other"),
	}
	for _, field := range []string{"api_base", "base_url", "api_url", "endpoint", "custom_llm_provider"} {
		requests[field] = chatRequest(fmt.Sprintf(`{"model":"m",%q:"http://%s/v1",%s}`, field, host, messages), "Authorization: Bearer ka")
	}
	for _, name := range []string{"X-Forwarded-Host", "X-Original-Host", "X-Portkey-Custom-Host", "X-Base-Url", "Forwarded"} {
		requests[name] = chatRequest(`{`+messages+`}`, "Authorization: Bearer ka", name+": "+host, name+"-Url: http://"+host)
	}
	for name, request := range requests {
		resp := g.raw(t, request)
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || string(answer) != `{"who":"ours"}` {
			t.Errorf("%s: %d, %s, %v", name, resp.StatusCode, answer, err)
			continue
		}
		if got := u.next(t); got.header("authorization") != "Bearer sk-ours" || got.header("host") != u.url.Host {
			t.Errorf("%s: the upstream was asked with %q as %q", name, got.header("authorization"), got.header("host"))
		}
		g.reports.next(t)
	}
	if resp, _ := g.post(t, `{`+messages+`}`, "Authorization: Bearer ka", "Sidenote-Upstream: other"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an option that there is not: %d", resp.StatusCode)
	}
	if len(named.seen) > 0 {
		t.Errorf("the named one was asked %d times: %+v", len(named.seen), <-named.seen)
	}
}
