package config

import (
	"fmt"
	"strings"
)

// Under returns a configuration in which all callers are one tenant with the policy name. A policy
// that names no base gets all of them.
func Under(c *Config, name Name) (*Config, error) {
	if _, ok := c.Policies[name]; !ok && name != defaultName {
		return nil, fmt.Errorf("no policy is named %q; there are %s", name, strings.Join(Texts(sortedKeys(c.Policies)), ", "))
	}
	t := Tenant{Policy: name, Knowledge: c.policy(name).Knowledge}
	if len(t.Knowledge) == 0 {
		t.Knowledge = sortedKeys(c.Knowledge)
	}
	return For(c, name, t), nil
}

// For returns a configuration in which all callers are the tenant t.
func For(c *Config, name Name, t Tenant) *Config {
	one := *c
	one.Tenants, one.Identity.Unknown = map[Name]Tenant{name: t}, name
	one.resolve()
	return &one
}

// Only returns a configuration with a single base, read from path. It is embedded if embed is true
// and c has an embedding service.
func Only(c *Config, base Name, path string, embed bool) *Config {
	k := Knowledge{Path: path, Embed: embed && embeds(c)}
	k.SetDefaults()
	only := *c
	only.Knowledge = map[Name]Knowledge{base: k}
	return &only
}
