package proxy_test

import (
	"strings"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// A background call goes up byte for byte in every mode, and status and report name the rule.
func TestBackgroundCalls(t *testing.T) {
	const (
		tags = `{ "model":"m", "messages":[{"role":"user","content":"### Task:\nGenerate 1-3 broad tags, please"}],"x":1.0 }`
		ours = `{"model":"m","max_completion_tokens":12,"messages":[{"role":"user","content":"q"}]}`
	)
	for _, mode := range []rewrite.Mode{rewrite.Shadow, rewrite.Inject, rewrite.Tools, rewrite.Staged} {
		up := newUpstream(t, answerJSON(`{}`))
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: up.url}},
			Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
				p.Rewrite.Mode, p.Rewrite.Placement = mode, rewrite.PlaceSplit
				p.Rewrite.Skip.Rules = []rewrite.SkipRule{{Name: "ours", MaxTokensBelow: 20, Header: "X-Task", Value: "title"}}
			})},
		}, nil)
		f := func(body, rule string, lines ...string) {
			t.Helper()
			resp, _ := g.post(t, body, lines...)
			if got, want := resp.Header.Get(report.HeaderStatus), "untouched; reason=background; rule="+rule; got != want {
				t.Errorf("mode %s: %q, want %q", mode, got, want)
			}
			if s := up.next(t); s.body != body {
				t.Errorf("mode %s: the upstream got %s, want %s", mode, s.body, body)
			}
			if r := g.reports.next(t); r.Reason != rewrite.ReasonBackground || r.Outcome != rewrite.Untouched || r.Mode != mode.String() || r.Rewrite.Ledger.Background != rule {
				t.Errorf("mode %s: reported %s %s, mode %s, rule %q", mode, r.Outcome, r.Reason, r.Mode, r.Rewrite.Ledger.Background)
			}
		}
		f(tags, "open-webui")
		f(ours, "ours", "X-Task: Title")
		if mode != rewrite.Inject {
			continue
		}
		for _, lines := range [][]string{{"X-Task: tags"}, {"Accept: */*"}} {
			resp, _ := g.post(t, ours, lines...)
			if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got, "injected; sources=1") {
				t.Errorf("%q: %q", lines, got)
			}
		}
		resp, _ := g.post(t, tags, "Sidenote-Query: parental leave")
		if got := resp.Header.Get(report.HeaderStatus); !strings.HasPrefix(got, "injected; sources=1") {
			t.Errorf("with a query of its own: %q", got)
		}
	}
}
