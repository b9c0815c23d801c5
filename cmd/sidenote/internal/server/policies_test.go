package server_test

import (
	"slices"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
)

const text = `
upstreams: {a: {base_url: https://a.test/v1, api_key: {env: KEY}}, b: {base_url: https://b.test/v1}}
knowledge: {docs: ./docs, hr: ./hr}
policies:
  base: {upstream: a, context_tokens: {env: TOKENS}, knowledge: [docs], filters: [{type: eq, key: audience, value: public}]}
  hr: {extends: base, context_tokens: 4000}
  draft: {extends: base, retrieval: {top_k: 2}, limits: {tokens_per_day: 100}}
  open: {grounding: strict}
tenants:
  hr:
    keys: [{sha256: 5cae8f73dedaa9e38d1bfaf1e11fbe7dff5f1b2fd9c6d2ba2ce62aaaeb1e4d2a}]
    policy: hr
    knowledge: [hr, docs]
    filters: [{type: gte, key: year, value: 2024}]
    limits: {tokens_per_day: 50}
identity: {unknown: hr}
`

func loadPolicies(t *testing.T, text string) server.Policies {
	t.Helper()
	c, err := config.Load(config.Source{
		Path: "c.yaml",
		Read: func(string) ([]byte, error) { return []byte(text), nil },
		Env: func(name string) (string, bool) {
			return map[string]string{"TOKENS": "3k", "KEY": "secret-canary"}[name], name == "TOKENS" || name == "KEY"
		},
	})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return server.Policies{Config: c}
}

// A tenant has its own policy and, under another policy, keeps its own settings; a policy alone
// has no settings of tenants. Each value names its source, and no value is a secret.
func TestResolve(t *testing.T) {
	p := loadPolicies(t, text)
	if got := p.Names(); !slices.Equal(got, []string{"base", "draft", "hr", "open"}) {
		t.Errorf("names: %q", got)
	}
	hash := map[string]bool{}
	for _, c := range []struct {
		tenant, policy, name string
		tokens, topK         int
		limit                int64
		bases                string
		settings             []string // the value and its sources
	}{
		{"hr", "", "hr", 4000, 6, 50, "hr docs", []string{
			"context_tokens 4000 c.yaml:6:23 policy hr", "retrieval.top_k 6 ", "knowledge [\"hr\",\"docs\"] c.yaml:13:5 tenant hr", "mode inject ",
			`filters [{"key":"audience","type":"eq","value":"public"},{"key":"year","type":"gte","value":2024}] c.yaml:5:73 policy base c.yaml:14:5 tenant hr`,
		}},
		{"hr", "draft", "draft", 3000, 2, 50, "hr docs", []string{"context_tokens 3000 c.yaml:5:23 policy base env TOKENS", "retrieval.top_k 2 c.yaml:7:38 policy draft", "knowledge [\"hr\",\"docs\"] c.yaml:13:5 tenant hr"}},
		{"", "draft", "draft", 3000, 2, 100, "docs", []string{"knowledge [\"docs\"] c.yaml:5:54 policy base"}},
		{"", "open", "open", 2000, 6, 0, "", []string{"grounding strict c.yaml:8:10 policy open"}},
	} {
		of, settings := p.Resolve(c.tenant, c.policy)
		if of == nil || of.Name != c.name || of.Tenant != c.tenant || of.Rewrite.ContextTokens != c.tokens || of.Rewrite.Search.TopK != c.topK || of.Budget.Limits[3] != c.limit ||
			strings.Join(of.Rewrite.Knowledge, " ") != c.bases || hash[of.Hash] {
			t.Errorf("%s under %s: %+v", c.tenant, c.policy, of)
			continue
		}
		hash[of.Hash] = true
		var lines []string
		for _, s := range settings {
			lines = append(lines, s.Key+" "+s.Value+" "+strings.Join(s.From, " "))
		}
		for _, want := range c.settings {
			if !slices.Contains(lines, want) {
				t.Errorf("%s under %s: no %q in\n%s", c.tenant, c.policy, want, strings.Join(lines, "\n"))
			}
		}
		if strings.Contains(strings.Join(lines, "\n"), "secret-canary") {
			t.Errorf("%s under %s shows a secret", c.tenant, c.policy)
		}
	}
	if own, _ := p.Config.Tenant("hr"); own.Hash != func() string { of, _ := p.Resolve("hr", "hr"); return of.Hash }() {
		t.Error("its own policy by name is another")
	}
	for _, unknown := range [][2]string{{"nobody", ""}, {"nobody", "base"}, {"hr", "nothing"}, {"", ""}, {"", "nothing"}} {
		if of, _ := p.Resolve(unknown[0], unknown[1]); of != nil {
			t.Errorf("%q: %+v", unknown, of)
		}
	}
}

// Without tenants there is one, which gets all bases under any policy that names none.
func TestResolveWithoutTenants(t *testing.T) {
	p := loadPolicies(t, "upstream: https://u.test/v1\nknowledge: {docs: ./docs, hr: ./hr}\npolicies: {default: {context_tokens: 900}, draft: {context_tokens: 700}}\n")
	for policy, tokens := range map[string]int{"": 900, "default": 900, "draft": 700} {
		of, _ := p.Resolve("default", policy)
		if of == nil || of.Rewrite.ContextTokens != tokens || strings.Join(of.Rewrite.Knowledge, " ") != "docs hr" {
			t.Errorf("%q: %+v", policy, of)
		}
	}
	bare := loadPolicies(t, "upstream: https://u.test/v1\n")
	if of, _ := bare.Resolve("default", "default"); of == nil || of.Name != "default" || !slices.Equal(bare.Names(), []string{"default"}) {
		t.Errorf("the policy that nobody writes: %+v of %q", of, bare.Names())
	}
}
