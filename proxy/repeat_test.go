package proxy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sidenote/cache"
	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/toolcalls"
)

// A tenant's follow-up gets the sources of its earlier turn again, and no other tenant does, though
// it asks the same.
func TestFollowUpGetsTheSourcesOfBefore(t *testing.T) {
	u := picky(t, 400, func(string) string { return "" })
	tier := []cache.Tier{{Name: "memory", Store: toolcalls.NewTurnMemory(1 << 20), TTL: cache.HistoryLifetime, EmptyTTL: cache.HistoryLifetime}}
	keeping := func(name string) *tenant.Policy {
		return policyOf(name, func(p *tenant.Policy) {
			p.Rewrite.Placement, p.Rewrite.Repeat = rewrite.PlaceSplit, rewrite.RepeatKeep
		})
	}
	store := cache.NewHistory[*rewrite.EarlierSources](cache.Given, tier, nil)
	first := []string{`{"role":"user","content":"How long is leave?"}`}
	second := append(first, `{"role":"assistant","content":"16 weeks [1]."}`, `{"role":"user","content":"Is that so?"}`)
	body := func(messages []string) string {
		return fmt.Sprintf(`{"model":"m","messages":[%s]}`, strings.Join(messages, ","))
	}
	sent := func(name string, messages []string) (texts []string) {
		t.Helper()
		g := start(t, proxy.Config{
			Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}}, Given: store, Tenants: tenant.Tenants{Unknown: keeping(name)},
		}, nil)
		if resp, text := g.post(t, body(messages)); resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
		var up struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.Unmarshal([]byte(u.next(t).body), &up); err != nil {
			t.Fatal(err)
		}
		for _, m := range up.Messages {
			if m.Role == "user" {
				texts = append(texts, m.Content)
			}
		}
		return texts
	}
	was := sent("acme", first)
	if !strings.Contains(was[0], "canary of acme") {
		t.Fatalf("the first turn has no source: %q", was)
	}
	if now := sent("acme", second); now[0] != was[0] || strings.Contains(now[1], "<source id=\"1\"") {
		t.Errorf("the follow-up has %q, want %q first", now, was)
	}
	if theirs := sent("other", second); theirs[0] != "How long is leave?" {
		t.Errorf("another tenant's follow-up has %q", theirs)
	}
}
