package proxy_test

import (
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval"
	"sidenote/rewrite"
)

// In mode inject the rules of placement split are sent with every turn, and the status says why
// there are no sources. In lower modes nothing is added.
func TestRulesGoUpInModeInjectOnly(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	for mode, want := range map[rewrite.Mode]string{
		rewrite.Inject: "injected; reason=no-match; sources=0; tokens=", rewrite.Shadow: "shadow", rewrite.Off: "untouched; reason=off",
	} {
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}},
			Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
				p.Rewrite.Mode, p.Rewrite.Placement = mode, rewrite.PlaceSplit
			})},
		}, retrieval.Func(nothing))
		resp, _ := g.post(t, chatBody)
		body := u.next(t).body
		if got := strings.Contains(body, `Be brief.\n\nWhere the user's latest message ends with sources`); got != (mode == rewrite.Inject) || !got && body != chatBody {
			t.Errorf("%s: %s", mode, body)
		}
		status := resp.Header.Get(report.HeaderStatus)
		if !strings.HasPrefix(status, want) || strings.HasSuffix(status, "; placement=split") != (mode == rewrite.Inject) {
			t.Errorf("%s: %s", mode, status)
		}
		if got := resp.Header.Values(report.HeaderSources); len(got) > 0 {
			t.Errorf("%s: sources %q", mode, got)
		}
		if r := g.reports.next(t); r.Degraded() {
			t.Errorf("%s: degraded", mode)
		}
	}
}
