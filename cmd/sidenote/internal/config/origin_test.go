package config_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"sidenote/cmd/sidenote/internal/config"
)

const text = `
upstream: https://u.test/v1
knowledge: {docs: ./docs, hr: ./hr}
policies:
  base:
    context_tokens: {env: TOKENS}
    retrieval: {top_k: 6, deadline: {env: UNSET, default: 150ms}}
    filters: [{type: eq, key: audience, value: public}]
    template: "{{QUERY}}: \n{{CONTEXT}}\n"
    components: [{name: x, text: "a: b\n- c # d\n", truncatable: true, priority: low}]
  strict: {extends: base, retrieval: {top_k: 7}, sources: low, grounding: strict}
tenants:
  hr:
    keys: [{sha256: 5cae8f73dedaa9e38d1bfaf1e11fbe7dff5f1b2fd9c6d2ba2ce62aaaeb1e4d2a}]
    policy: strict
    knowledge: [hr, docs]
    filters: [{type: gte, key: year, value: 2024}]
`

func loadOrigin(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load(config.Source{
		Path: "c.yaml",
		Read: func(string) ([]byte, error) { return []byte(text), nil },
		Env:  func(name string) (string, bool) { return map[string]string{"TOKENS": "3k"}[name], name == "TOKENS" },
	})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return c
}

// A value comes from the tenant, its policy, a policy that this extends, or the defaults. Filters
// of tenant and policy are combined.
func TestPolicyOrigins(t *testing.T) {
	got := map[string]string{}
	for _, s := range config.PolicyOrigins(loadOrigin(t), "hr") {
		for _, from := range s.From {
			got[s.Key] += from.String() + ";"
		}
	}
	want := map[string]string{
		"knowledge": "c.yaml:16:5 tenant hr;", "filters": "c.yaml:8:5 policy base;c.yaml:17:5 tenant hr;",
		"context_tokens": "c.yaml:6:5 policy base env TOKENS;", "retrieval.top_k": "c.yaml:11:39 policy strict;",
		"retrieval.deadline": "c.yaml:7:27 policy base env UNSET;", "sources.priority": "c.yaml:11:59 policy strict;",
		"grounding": "c.yaml:11:64 policy strict;", "template": "c.yaml:9:5 policy base;", "components": "c.yaml:10:5 policy base;",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// Without its comments the text is the policy as encoders write it, and can be read back.
func TestPolicyYAML(t *testing.T) {
	c := loadOrigin(t)
	printed := config.OriginYAML(config.PolicyOrigins(c, "hr"))
	var got, want any
	policy, err := yaml.Marshal(c.Policy("hr"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(printed), &got); err != nil {
		t.Fatalf("%v in\n%s", err, printed)
	}
	if err := yaml.Unmarshal(policy, &want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("printed as\n%s-want +got:\n%s", printed, d)
	}
	for _, line := range []string{
		`^context_tokens: 3000  # c.yaml:6:5 policy base env TOKENS$`,
		`^retrieval:\n  deadline: 150ms  # c.yaml:7:27 policy base env UNSET\n  top_k: 7  # c.yaml:11:39 policy strict\n  num_candidates: 50  # default$`,
		`^filters:  # c.yaml:8:5 policy base, c.yaml:17:5 tenant hr$`, `^on_empty: notice  # default$`,
		`^knowledge: \[hr, docs\]  # c.yaml:16:5 tenant hr$`,
	} {
		if !regexp.MustCompile(`(?m)` + line).MatchString(printed) {
			t.Errorf("no line %s in\n%s", line, printed)
		}
	}
}

// A value has the same type in JSON as in a file.
func TestPolicyJSON(t *testing.T) {
	out, err := json.Marshal(config.PolicyOrigins(loadOrigin(t), "hr"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`{"key":"mode","value":"inject","from":[]}`,
		`{"key":"knowledge","value":["hr","docs"],"from":[{"file":"c.yaml","line":16,"column":5,"tenant":"hr"}]}`,
		`{"key":"context_tokens","value":3000,"from":[{"file":"c.yaml","line":6,"column":5,"policy":"base","env":"TOKENS"}]}`,
	} {
		if !strings.Contains(string(out), part) {
			t.Errorf("no %s in %s", part, out)
		}
	}
}
