package config_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/tenant"
)

// The settings of tokens and the header reach the proxy; a single string is a list of one.
func TestCallers(t *testing.T) {
	d := disk{"etc/keys.json": publicKeys, "etc/c.yaml": `
upstream: https://u.test
identity:
  jwt:
    corp: {issuer: https://id.test, audience: sidenote, jwks_url: https://id.test/jwks}
    ci: {issuer: https://ci.test, audience: sidenote, jwks_file: keys.json, algorithms: [ES256, EdDSA]}
  header: {trusted: [10.0.0.0/8, 127.0.0.1, "fd00::/8"]}
tenants:
  hr: {jwt: {corp: {groups: [hr, people], realm.level: 3}, ci: {sub: hr}}}
  ops: {policy: base}
policies: {base: {context_tokens: 1k}}
`}
	c, err := config.Load(d.source("etc/c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Proxy().Tenants
	if diff := cmp.Diff([]tenant.Issuer{
		{Name: "ci", Issuer: "https://ci.test", Audience: "sidenote", Algorithms: []string{"ES256", "EdDSA"}},
		{Name: "corp", Issuer: "https://id.test", Audience: "sidenote", Algorithms: []string{"RS256"}},
	}, got.Issuers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]tenant.ClaimRule{
		{Tenant: "hr", Issuer: "ci", Claims: map[string][]string{"sub": {"hr"}}},
		{Tenant: "hr", Issuer: "corp", Claims: map[string][]string{"groups": {"hr", "people"}, "realm.level": {"3"}}},
	}, got.Rules); diff != "" {
		t.Error(diff)
	}
	if text := fmt.Sprint(got.Trusted); text != "[10.0.0.0/8 127.0.0.1/32 fd00::/8]" || len(got.Named) != 2 {
		t.Errorf("trusted are %s, tenants %v", text, got.Named)
	}
}

// An included file needs a permission to map tokens to its tenants, because it could take over
// callers of others.
func TestDelegatedTokens(t *testing.T) {
	const main = "upstream: https://u.test\nidentity: {jwt: {corp: {issuer: i, audience: a, jwks_url: https://id.test}}}\ninclude: [%s]\n"
	for include, want := range map[string]string{
		"team.yaml": "team.yaml:1:21: tenants.a.jwt.corp: is not for an included file to say, as it could take callers of others; " +
			"c.yaml:3:11 can allow it, as in {path: team.yaml, may: [tokens]}",
		"{path: team.yaml, may: [tokens]}": "<nil>",
		"{path: team.yaml, may: [all]}":    "<nil>",
	} {
		d := disk{"c.yaml": fmt.Sprintf(main, include), "team.yaml": "tenants: {a: {jwt: {corp: {groups: hr}}}}\n"}
		if _, err := config.Load(d.source("c.yaml")); fmt.Sprint(err) != want {
			t.Errorf("%s:\ngot  %v\nwant %s", include, err, want)
		}
	}
}
