package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"sidenote/cache"
	"sidenote/proxy"
	"sidenote/proxy/answer/answertest"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/toolcalls"
)

// keepingSources returns a configuration whose policy repeats the sources of earlier turns.
func keepingSources(u *stubUpstream, change func(*tenant.Policy)) proxy.Config {
	tier := []cache.Tier{{Name: "memory", Store: toolcalls.NewTurnMemory(1 << 20), TTL: cache.HistoryLifetime, EmptyTTL: cache.HistoryLifetime}}
	return proxy.Config{
		Upstreams: map[string]proxy.Upstream{"stub": {Name: "stub", BaseURL: u.url}}, Tools: &proxy.RoundsKit{Box: newBox()},
		Given: cache.NewHistory[*rewrite.EarlierSources](cache.Given, tier, nil),
		Tenants: tenant.Tenants{Unknown: policyOf("acme", func(p *tenant.Policy) {
			p.Rewrite.Placement, p.Rewrite.Repeat = rewrite.PlaceSplit, rewrite.RepeatKeep
			if change != nil {
				change(p)
			}
		})},
	}
}

const (
	firstTurn  = `{"model":"m","messages":[{"role":"user","content":"How long is leave?"}]}`
	secondTurn = `{"model":"m","messages":[{"role":"user","content":"How long is leave?"},{"role":"assistant","content":"16 weeks [1]."},{"role":"user","content":"Is that so?"}]}`
)

// A request that is too long is sent again without the sources of earlier turns first.
func TestRepeatedSourcesThatAreTooLong(t *testing.T) {
	for name, message := range map[string]string{
		"no numbers":      in("Your input exceeds the context window of this model.", invalid, exceeded),
		"a few too many":  in("This model's maximum context length is 8192 tokens. However, your messages resulted in 8300 tokens.", invalid, exceeded),
		"the limit alone": in("This model's maximum context length is 8192 tokens.", invalid, exceeded),
	} {
		t.Run(name, func(t *testing.T) {
			u := picky(t, 400, func(body string) string {
				if strings.Contains(body, "16 weeks [1].") && strings.Contains(strings.Split(body, "16 weeks [1].")[0], "canary") {
					return message
				}
				return ""
			})
			g := start(t, keepingSources(u, func(p *tenant.Policy) { p.RetryTooLong = true }), nil)
			g.post(t, firstTurn)
			u.next(t)
			if resp, text := g.post(t, secondTurn); resp.StatusCode != 200 || len(u.seen) != 2 {
				t.Errorf("%d %s after %d requests", resp.StatusCode, text, len(u.seen))
			}
		})
	}
}

// Results of tools have other ids than the sources of earlier turns.
func TestToolsBesideRepeatedSources(t *testing.T) {
	u := newUpstream(t, func(s seen, w io.Writer) {
		a := answertest.Answer{Text: "16 weeks [1].", Finish: "stop"}
		if strings.Contains(s.body, "Is that so?") && !strings.Contains(s.body, `"role":"tool"`) {
			a = answertest.Answer{Finish: "tool_calls", Calls: []answertest.Call{{Name: "read_knowledge", Arguments: `{"refs":["kb-acme:leave.md:0"]}`}}}
		}
		body, _ := answertest.Bytes(a, plain(), false)
		answerJSON(string(body))(s, w)
	})
	g := start(t, keepingSources(u, func(p *tenant.Policy) {
		p.Rewrite.Mode, p.Tools = rewrite.Tools, toolPolicy()
		p.Tools.FirstSearch = true
	}), nil)
	g.post(t, firstTurn)
	g.post(t, secondTurn)
	var last string
	for range 3 {
		last = u.next(t).body
	}
	for id := 1; id <= 2; id++ {
		if n := strings.Count(last, fmt.Sprintf(`<source id=\"%d\"`, id)); n != 1 {
			t.Errorf("id %d stands for %d sources in %s", id, n, last)
		}
	}
}

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
