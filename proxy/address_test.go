package proxy_test

import (
	"net/netip"
	"slices"
	"testing"

	"sidenote/proxy"
	"sidenote/proxy/tenant"
)

// T09: a client's address is that of its connection, or the one that trusted proxies report. The
// header is forwarded unchanged and does not select the tenant.
func TestAddress(t *testing.T) {
	u := newUpstream(t, answerJSON("{}"))
	for _, c := range []struct {
		trusted string
		lines   []string
		want    string
	}{
		{"10.0.0.0/8", []string{"X-Forwarded-For: 203.0.113.9"}, "127.0.0.1"},
		{"127.0.0.0/8", nil, "127.0.0.1"},
		{"127.0.0.0/8", []string{"X-Forwarded-For: 198.51.100.1,203.0.113.9"}, "203.0.113.9"},
		{"127.0.0.0/8", []string{"x-forwarded-for: 203.0.113.9", "X-Forwarded-For:  127.0.0.5"}, "203.0.113.9"},
		{"127.0.0.0/8", []string{"X-Forwarded-For: <script>"}, "127.0.0.1"},
		{"127.0.0.0/8", []string{"X_Forwarded_For: 203.0.113.9", "Forwarded: for=203.0.113.9", "X-Real-IP: 203.0.113.9"}, "127.0.0.1"},
	} {
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {BaseURL: u.url}},
			Tenants:   tenant.Tenants{Unknown: policyOf("acme", nil), Proxies: []netip.Prefix{netip.MustParsePrefix(c.trusted)}},
		}, nil)
		if resp, _ := g.post(t, chatBody, c.lines...); resp.StatusCode != 200 {
			t.Errorf("%v: status %d", c, resp.StatusCode)
		}
		if r := <-g.reports; r.Address.String() != c.want || r.Tenant != "acme" {
			t.Errorf("%v: address %s, tenant %s", c, r.Address, r.Tenant)
		}
		head := u.next(t).head
		for _, l := range c.lines {
			if !slices.Contains(head, l) {
				t.Errorf("%q did not go up as it came: %q", l, head)
			}
		}
	}
}
