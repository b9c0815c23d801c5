package proxy_test

import (
	"strings"
	"testing"
	"time"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// The kill switch lowers the mode of a policy and never raises it. The status reports it.
func TestKillSwitch(t *testing.T) {
	const asks = `{"model":"m","messages":[{"role":"user","content":"q"}]}`
	up := newUpstream(t, answerJSON(`{}`))
	modes, err := tenant.NewSwitch(nil, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	shadowed := policyOf("umbra", func(p *tenant.Policy) { p.Rewrite.Mode = rewrite.Shadow })
	g := start(t, proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: up.url}},
		Tenants:   tenant.Tenants{Keys: []tenant.Key{keyOf("a", policyOf("acme", nil)), keyOf("u", shadowed)}},
		Switch:    modes,
	}, nil)
	f := func(limit rewrite.Mode, key, line, status, mode, from string, sources bool) {
		t.Helper()
		modes.Set(tenant.SwitchEntry{Mode: limit, Since: time.Now()})
		resp, _ := g.post(t, asks, "Authorization: Bearer "+key, line)
		if got := resp.Header.Get("Sidenote-Status"); got != status && (status != "" || !strings.HasPrefix(got, "injected; sources=1")) {
			t.Errorf("limit %s, key %s: %q, want %q", limit, key, got, status)
		}
		if sent := up.next(t).body; strings.Contains(sent, "canary") != sources {
			t.Errorf("limit %s, key %s: sent %s", limit, key, sent)
		}
		if r := g.reports.next(t); r.Mode != mode || r.SwitchedFrom != from || r.PolicyHash != "00000001" {
			t.Errorf("limit %s, key %s: mode %q from %q, policy hash %s", limit, key, r.Mode, r.SwitchedFrom, r.PolicyHash)
		}
	}
	const none = "Accept: */*"
	f(rewrite.Inject, "a", none, "", "inject", "", true)
	f(rewrite.Inject, "u", none, "shadow", "shadow", "", false)
	f(rewrite.Shadow, "a", none, "shadow; switched-from=inject", "shadow", "inject", false)
	f(rewrite.Shadow, "a", "Sidenote-Mode: off", "untouched; reason=off; switched-from=inject", "off", "inject", false)
	f(rewrite.Shadow, "u", none, "shadow", "shadow", "", false)
	f(rewrite.Off, "a", none, "untouched; reason=switched-off; switched-from=inject", "off", "inject", false)
	f(rewrite.Off, "a", "Sidenote-Mode: inject", "untouched; reason=switched-off; switched-from=inject", "off", "inject", false)
	f(rewrite.Off, "u", none, "untouched; reason=switched-off; switched-from=shadow", "off", "shadow", false)
	if !modes.Reset("") {
		t.Error("nothing was set")
	}
	resp, _ := g.post(t, asks, "Authorization: Bearer a")
	if got := resp.Header.Get("Sidenote-Status"); !strings.HasPrefix(got, "injected; sources=1") {
		t.Errorf("after the switch: %q", got)
	}
}
