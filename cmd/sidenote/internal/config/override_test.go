package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/rewrite"
)

var overridden = `
upstream: https://u.test
knowledge: {a: ./a}
policies:
  base:
    context_tokens: 3000
    retrieval: {top_k: 4, deadline: 100ms}
    components: [{name: rules, text: Be kind.}]
    filters: [{type: eq, key: audience, value: public}]
    overrides:
      - {models: [gpt-4*], context_tokens: 800, retrieval: {top_k: 2}, components: [{name: short, text: Be brief.}]}
      - {models: [o3, o4*], routes: [/deployments/x/chat/completions], mode: off}
      - {routes: [/chat/completions], grounding: strict, filters: [{type: eq, key: team, value: hr}]}
  child: {extends: base, context_tokens: 1000, retrieval: {deadline: 200ms}, citations: off}
  own: {extends: base, overrides: [{models: ["*"], mode: shadow}]}
tenants:
  t: {keys: [` + digest[:63] + `1], policy: base, knowledge: [a], filters: [{type: eq, key: site, value: berlin}]}
  c: {keys: [` + digest[:63] + `2], policy: child, knowledge: [a]}
  o: {keys: [` + digest[:63] + `3], policy: own, knowledge: [a]}
`

// An override is merged over its policy, or over the policy that extends it; its filters are added
// to all others. Each has its own hash.
func TestOverrides(t *testing.T) {
	c := load(t, overridden)
	of := func(tenant config.Name, i int) rewrite.Policy {
		p, _ := c.Tenant(tenant)
		return p.Overrides[i].Policy.Rewrite
	}
	if p := of("t", 0); p.ContextTokens != 800 || p.Search.TopK != 2 || p.Search.Deadline != 100*time.Millisecond ||
		len(p.Components) != 1 || p.Components[0].Name != "short" || p.Mode != rewrite.Inject || p.Tenant != "t" || p.Knowledge[0] != "a" {
		t.Errorf("merged: %+v", p)
	}
	if p := of("c", 0); p.ContextTokens != 800 || p.Search.TopK != 2 || p.Search.Deadline != 200*time.Millisecond || p.Citations != rewrite.CitationsOff {
		t.Errorf("over a policy that extends its own: %+v", p)
	}
	const public, hr, berlin = `{"type":"eq","key":"audience","value":"public"}`, `{"type":"eq","key":"team","value":"hr"}`, `{"type":"eq","key":"site","value":"berlin"}`
	for i, want := range []string{public + "," + berlin, public + "," + berlin, public + "," + berlin + "," + hr} {
		if got := of("t", i).Filter.String(); got != `{"type":"and","filters":[`+want+`]}` {
			t.Errorf("filters of overrides[%d]: %s", i, got)
		}
	}
	if p := of("t", 2); p.Grounding != rewrite.GroundingStrict || p.Empty() != rewrite.EmptyNotice || p.ContextTokens != 3000 {
		t.Errorf("grounding: %+v", p)
	}
	if p, _ := c.Tenant("o"); len(p.Overrides) != 1 || p.Overrides[0].Policy.Rewrite.Mode != rewrite.Shadow {
		t.Errorf("a list of its own: %+v", p.Overrides)
	}
	hashes := map[string]string{}
	for _, name := range c.TenantNames() {
		p, _ := c.Tenant(name)
		for one := range p.All {
			if one.Hash == "" || one.Rewrite.Digest == "" || hashes[one.Rewrite.Digest] != "" {
				t.Errorf("%s: hash %q, as %s", name, one.Hash, hashes[one.Rewrite.Digest])
			}
			hashes[one.Rewrite.Digest] = string(name)
		}
		// The output of check can be used as a policy with the same overrides.
		text, err := yaml.Marshal(map[string]any{"upstream": "https://u.test", "knowledge": map[string]string{"a": "./a"}, "policies": map[string]any{"default": c.Policy(name)}})
		if err != nil {
			t.Fatal(err)
		}
		again, _ := load(t, string(text)).Tenant("default")
		for i, o := range again.Overrides {
			got, want := o.Policy.Rewrite, p.Overrides[i].Policy.Rewrite
			got.Tenant, got.Digest, want.Digest = want.Tenant, "", ""
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("%s: overrides[%d] printed as\n%s", name, i, text)
			}
		}
	}
	text, err := yaml.Marshal(c.Policy("t"))
	if want := "\n- models:\n  - gpt-4*\n  context_tokens: 800\n  components:\n"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("only what differs is printed: %v\n%s", err, text)
	}
	// A change of an override changes its policy.
	other := load(t, strings.Replace(overridden, "context_tokens: 800", "context_tokens: 801", 1))
	before, _ := c.Tenant("t")
	if after, _ := other.Tenant("t"); after.Hash == before.Hash || after.Overrides[0].Policy.Hash == before.Overrides[0].Policy.Hash || after.Overrides[1].Policy.Hash != before.Overrides[1].Policy.Hash {
		t.Error("hashes do not tell which override changed")
	}
	if got := load(t, strings.Replace(overridden, "mode: off}", "retrieval: {deadline: 1s}}", 1)).WorstRetrieval(); got != time.Second {
		t.Errorf("the worst search takes %s", got)
	}
}

func TestOverridesRefused(t *testing.T) {
	for override, want := range map[string]string{
		"{context_tokens: 5}":                                   "c.yaml:2:35: policies.default.overrides[0]: is for every request; give it models or routes, or change the policy itself",
		"{models: [a], context_tokens: 0}":                      "c.yaml:2:64: policies.default.overrides[0].context_tokens: 0 is out of range; use 1 to 10M",
		"{models: [a], upstream: default}":                      "c.yaml:2:49: policies.default.overrides[0].upstream: unknown key",
		"{models: [a], knowledge: [b]}":                         "c.yaml:2:49: policies.default.overrides[0].knowledge: unknown key",
		"{models: [a], max_rewrite_bytes: 1MiB}":                "c.yaml:2:49: policies.default.overrides[0].max_rewrite_bytes: unknown key",
		"{models: [a], overrides: [{models: [b]}]}":             "c.yaml:2:49: policies.default.overrides[0].overrides: unknown key",
		"{models: [a], retrieval: {top_k: 60}}":                 "c.yaml:2:68: policies.default.overrides[0].retrieval.top_k: 60 is more than num_candidates, 50",
		"{models: [a], components: [{name: sources, text: x}]}": `c.yaml:2:64: policies.default.overrides[0].components[0].name: "sources" is taken`,
		"{models: ['a*b']}":                                     `c.yaml:2:45: policies.default.overrides[0].models[0]: "a*b" is not a model; write a name, or a prefix and one * at its end, as in gpt-5*`,
		"{routes: [chat]}":                                      `c.yaml:2:45: policies.default.overrides[0].routes[0]: "chat" is not a route; write it as in /chat/completions`,
		"{models: [a], filters: [{type: eqq, key: a}]}":         `c.yaml:2:65: policies.default.overrides[0].filters[0].type: "eqq" is none of eq, ne, gt, gte, lt, lte, in, nin, prefix, and, or`,
	} {
		d := disk{"c.yaml": "upstream: https://u.test\npolicies: {default: {overrides: [" + override + "]}}"}
		_, err := config.Load(d.source("c.yaml"))
		got := fmt.Sprint(err)
		if place := got[:strings.Index(got+": ", ": ")]; !strings.HasPrefix(place, "c.yaml:2:") || strings.TrimPrefix(got, place) != want[strings.Index(want, ": "):] {
			t.Errorf("%s\ngot  %v\nwant %s", override, err, want)
		}
	}
}

// A filter's value may be a claim of the caller's token: with eq and in, in policies, overrides
// and tenants, and nowhere else.
func TestFiltersFromClaims(t *testing.T) {
	c := load(t, `
upstream: https://u.test
policies:
  default:
    filters: [{type: or, filters: [{type: eq, key: audience, value: public}, {type: in, key: department, value: "${claims.departments}"}]}]
    overrides: [{models: [x], filters: [{type: eq, key: site, value: "${claims.https://id.test/site}"}]}]
tenants: {a: {keys: [`+digest+`], filters: [{type: eq, key: user, value: "${claims.sub}"}]}}
`)
	p, _ := c.Tenant("a")
	claims := map[string][]string{"departments": {"it", "hr"}, "sub": {"u1"}, "https://id.test/site": {"berlin"}}
	const public, departments, user = `{"type":"eq","key":"audience","value":"public"}`, `{"type":"in","key":"department","value":["hr","it"]}`, `{"type":"eq","key":"user","value":"u1"}`
	want := []string{
		`{"type":"and","filters":[` + user + `,{"type":"or","filters":[` + public + `,` + departments + `]}]}`,
		`{"type":"and","filters":[{"type":"eq","key":"site","value":"berlin"},` + user + `,{"type":"or","filters":[` + public + `,` + departments + `]}]}`,
	}
	i := 0
	for one := range p.All {
		if got, err := one.Rewrite.WithClaims(claims); err != nil || got.Filter.String() != want[i] {
			t.Errorf("%d: %s, %v; want %s", i, got.Filter, err, want[i])
		}
		if _, err := one.Rewrite.WithClaims(nil); err == nil {
			t.Errorf("%d: no claims, and no error", i)
		}
		i++
	}
	text, err := yaml.Marshal(map[string]any{"upstream": "https://u.test", "policies": map[string]any{"default": c.Policy("a")}})
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := load(t, string(text)).Tenant("default"); again.Rewrite.Filter.String() != p.Rewrite.Filter.String() {
		t.Errorf("printed as %s", text)
	}
	if other, _ := load(t, strings.ReplaceAll(string(text), "claims.sub", "claims.name")).Tenant("default"); other.Hash == p.Hash {
		t.Error("another claim is the same policy")
	}
	for value, want := range map[string]string{
		`{type: ne, key: a, value: "${claims.b}"}`:               `value: {"claim":"b"} a claim goes with`,
		`{type: eq, key: a, value: "${claim.b}"}`:                `value: "${claim.b}" has a placeholder that is none; there is ${claims.NAME}, for a claim of the caller's token`,
		`{type: eq, key: a, value: "${claims.}"}`:                `value: "${claims.}" has a placeholder that is none;`,
		`{type: eq, key: a, value: "x${claims.b}"}`:              `value: "x${claims.b}" has a placeholder that is none;`,
		`{type: eq, key: a, value: "${claims.b}${claims.c}"}`:    `has a placeholder that is none;`,
		`{type: in, key: a, value: ["${claims.b}"]}`:             `value[0]: "${claims.b}" stands where no claim can; it is the whole value of a filter of type eq or in`,
		`{type: eq, key: "${claims.b}", value: a}`:               `key: "${claims.b}" stands where no claim can;`,
		`{type: eq, key: a, value: {claim: b}}`:                  `value: expected a value, {env: NAME, default: VALUE}, a list of them, or "${claims.NAME}", got a map`,
		`{type: eq, key: a, value: 1}], knowledge: ["${claims}"`: `"${claims}" is not a name`,
	} {
		d := disk{"c.yaml": "upstream: https://u.test\npolicies: {default: {filters: [" + value + "]}}"}
		if _, err := config.Load(d.source("c.yaml")); !strings.Contains(fmt.Sprint(err), strings.Replace(want, `{"claim":"b"} a claim`, "a claim", 1)) || !strings.HasPrefix(fmt.Sprint(err), "c.yaml:2:") {
			t.Errorf("%s\ngot  %v\nwant %s", value, err, want)
		}
	}
	d := disk{"c.yaml": `{upstream: "https://u.test", knowledge: {k: {path: ., attributes: {value: "${claims.b}"}}}}`}
	if _, err := config.Load(d.source("c.yaml")); !strings.Contains(fmt.Sprint(err), "stands where no claim can") {
		t.Errorf("an attribute: %v", err)
	}
}
