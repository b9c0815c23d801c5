package proxy_test

import (
	"strings"
	"testing"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/retrieval/filter"
	"sidenote/rewrite"
)

// T03, T07: if a filter uses a claim, a caller without that claim is refused on every chat, in any
// mode. Other routes, which get no sources, are relayed.
func TestCallersWithoutClaims(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	byClaim := func(p *tenant.Policy) {
		p.Rewrite.Filter = filter.AllOf(&filter.Filter{Type: filter.Eq, Key: "a", Value: "b"},
			&filter.Filter{Type: filter.In, Key: "department", Value: filter.Claim("departments")})
	}
	f := func(g *rig, body string, lines ...string) {
		t.Helper()
		resp, text := g.post(t, body, lines...)
		if resp.StatusCode != 403 || !strings.Contains(text, `"code":"missing_claim"`) || !strings.Contains(text, `claim \"departments\" is missing or empty`) ||
			resp.Header.Get(report.HeaderStatus) != "refused; reason=missing-claim" {
			t.Errorf("%v: %d %s", lines, resp.StatusCode, text)
		}
		if r := g.reports.next(t); r.Outcome != rewrite.Refused {
			t.Errorf("report %+v", r)
		}
	}
	for _, mode := range []rewrite.Mode{rewrite.Inject, rewrite.Shadow, rewrite.Off} {
		g := open(t, u, func(p *tenant.Policy) { byClaim(p); p.Rewrite.Mode = mode })
		f(g, chatBody)
		f(g, chatBody, "Sidenote-Mode: off")
		f(g, chatBody, "Sidenote-Knowledge: none")
		f(g, strings.Replace(chatBody, `"model"`, `"sidenote":{"filters":{"type":"eq","key":"department","value":"hr"}}, "model"`, 1))
	}
	// The filter of an override works like the policy's.
	g := open(t, u, func(p *tenant.Policy) {
		other := *p
		byClaim(&other)
		p.Overrides = []tenant.Override{{Models: tenant.Models{"m"}, Policy: &other}}
	})
	f(g, chatBody)
	if len(u.seen) > 0 {
		t.Errorf("what was refused went up: %q", <-u.seen)
	}
	if resp, text := g.post(t, strings.Replace(chatBody, `"m"`, `"n"`, 1)); resp.StatusCode != 200 {
		t.Errorf("another model: %d %s", resp.StatusCode, text)
	}
	u.next(t)
	g = open(t, u, byClaim)
	if resp := g.raw(t, "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"); resp.StatusCode != 200 {
		t.Errorf("another route: %d", resp.StatusCode)
	}
}
