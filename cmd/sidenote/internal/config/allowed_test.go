package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
)

// A tenant's list of models narrows its policy's. With a list of models only the policy's routes
// are open, by default the usual ones.
func TestAllowedModels(t *testing.T) {
	c := load(t, `
upstream: https://u.test
policies:
  base: {models: [gpt-5*, o3, o4*]}
  same: {extends: base, mode: off}
  open: {mode: shadow, routes: [/embeddings]}
tenants:
  a: {keys: [`+digest[:63]+`1], policy: same, models: [gpt-5-mini*, gpt-5, gpt-4, "o*"]}
  b: {keys: [`+digest[:63]+`2], policy: base}
  c: {keys: [`+digest[:63]+`3], policy: open, models: ["*"]}
  d: {keys: [`+digest[:63]+`4], policy: open}
`)
	for tenant, want := range map[config.Name]tenant.Models{
		"a": {"gpt-5-mini*", "gpt-5", "o3", "o4*"}, "b": {"gpt-5*", "o3", "o4*"}, "c": {"*"}, "d": nil,
	} {
		p, _ := c.Tenant(tenant)
		routes := route.Defaults()
		if tenant >= "c" {
			routes = []string{"/embeddings"}
		}
		if !slices.Equal(p.Models, want) || (p.Models == nil) != (want == nil) || !slices.Equal(p.Routes, routes) {
			t.Errorf("%s: models %q, routes %q", tenant, p.Models, p.Routes)
		}
		text, err := yaml.Marshal(map[string]any{"upstream": "https://u.test", "policies": map[string]any{"default": c.Policy(tenant)}})
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := load(t, string(text)).Tenant("default"); !slices.Equal(again.Models, want) {
			t.Errorf("%s: printed as %s", tenant, text)
		}
	}
	b, _ := c.Tenant("b")
	if a, _ := c.Tenant("a"); a.Hash == b.Hash {
		t.Error("a list of models does not change the hash of a policy")
	}
}

func TestAllowedModelsRefused(t *testing.T) {
	for file, want := range map[string]string{
		"policies: {default: {models: ['gpt-*-mini']}}": `c.yaml:2:31: policies.default.models[0]: "gpt-*-mini" is not a model; write a name, or a prefix and one * at its end, as in gpt-5*`,
		"policies: {default: {models: ['a b']}}":        `c.yaml:2:31: policies.default.models[0]: "a b" is not a model; write a name, or a prefix and one * at its end, as in gpt-5*`,
		"policies: {default: {models: []}}":             `c.yaml:2:30: policies.default.models: is blank; give it a value or leave the key out`,
		"policies: {default: {models: [a, a]}}":         `c.yaml:2:34: policies.default.models[1]: "a" is listed twice`,
		"policies: {default: {models: [gpt-5*]}}\ntenants: {a: {keys: [" + digest + "], models: [gpt-4, o3*]}}": `c.yaml:3:89: tenants.a.models: has none of the models of policy "default", which are gpt-5*`,
	} {
		d := disk{"c.yaml": "upstream: https://u.test\n" + file}
		if _, err := config.Load(d.source("c.yaml")); fmt.Sprint(err) != want {
			t.Errorf("%s\ngot  %v\nwant %s", file, err, want)
		}
	}
}

// The combination of two lists allows exactly the models that both allow, for any lists and names.
func TestTenantsNarrowModels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := func(name string) []string {
			return rapid.SliceOfNDistinct(rapid.StringMatching(`[ab]{0,3}\*|[ab]{1,3}`), 1, 4, rapid.ID).Draw(t, name)
		}
		ofPolicy, ofTenant := list("policy"), list("tenant")
		d := disk{"c.yaml": fmt.Sprintf("upstream: https://u.test\npolicies: {default: {models: ['%s']}}\ntenants: {a: {keys: [%s], models: ['%s']}}",
			strings.Join(ofPolicy, "','"), digest, strings.Join(ofTenant, "','"))}
		c, err := config.Load(d.source("c.yaml"))
		for _, name := range []string{"a", "b", "aa", "ab", "ba", "bb", "aba", "bab", "abab", "c"} {
			both := tenant.Models(ofPolicy).Allows(name) && tenant.Models(ofTenant).Allows(name)
			if err != nil {
				if both {
					t.Fatalf("%q is in %q and %q: %v", name, ofPolicy, ofTenant, err)
				}
				continue
			}
			if p, _ := c.Tenant("a"); p.Models.Allows(name) != both {
				t.Fatalf("%q of %q and %q: %q", name, ofPolicy, ofTenant, p.Models)
			}
		}
	})
}
