package config

import (
	"maps"
	"slices"

	"sidenote/proxy/tenant"
)

// readKeySets checks the issuers of tokens, and reads their keys from files.
func (c loader) readKeySets(src Source) {
	loadKeys(c.Identity.JWT, namedFiles{c, src}, c.problem)
}

// namedFiles implements keysFile.
type namedFiles struct {
	c   loader
	src Source
}

func (f namedFiles) Read(key, name string) (path string, text []byte, err error) {
	path = f.c.locate(key, name)
	text, err = f.src.Read(path)
	return path, text, err
}

func (f namedFiles) Written(key string) bool {
	_, written := f.c.places[key]
	return written
}

// checkCallers checks how callers are recognised by tokens and by a header.
func checkCallers(c checker) {
	for key, used := range map[string]bool{"identity.jwt": len(c.Identity.JWT) > 0, "identity.header": c.Identity.Header.Used()} {
		if used && len(c.Tenants) == 0 {
			c.problem(key, "needs tenants, and there are none")
		}
	}
	for _, tenant := range sortedKeys(c.Tenants) {
		for _, issuer := range sortedKeys(c.Tenants[tenant].JWT) {
			key := "tenants." + string(tenant) + ".jwt." + string(issuer)
			if known(c.Config, key, "issuer", issuer, c.Identity.JWT) && !c.may(key, mayTokens) {
				c.forbidden(key, mayTokens, "is not for an included file to say, as it could take callers of others")
			}
		}
	}
	if verifies := func(l Listener) bool { return l.TLS.ClientCA != "" }; len(c.Identity.Header.Certificates) > 0 && !slices.ContainsFunc(c.CallerPorts(), verifies) {
		c.problem("identity.header.certificates", "needs a listener that verifies certificates of clients, by tls: {client_ca: …}")
	}
	checkIssuer(rules(c.Config), c.problem)
}

// rules returns the rules that map tokens to tenants.
func rules(c *Config) []tenant.ClaimRule {
	claims := map[Name]map[Name]Claims{}
	for name, t := range c.Tenants {
		claims[name] = t.JWT
	}
	return claimRules(claims)
}

// addCallers sets how callers are recognised by tokens and by a header.
func addCallers(c *Config, t *tenant.Tenants) {
	addIssuer(t, c.Identity.JWT, rules(c), c.Identity.Header)
	t.Proxies = Networks(c.Proxies)
	if len(c.Tenants) > 0 {
		t.Named = slices.Collect(maps.Values(c.tenants))
	}
}
