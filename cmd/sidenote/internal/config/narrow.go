package config

import (
	"fmt"
	"strings"
)

// WithSinglePolicy returns a configuration in which all callers are one tenant with the policy
// name. A policy that names no base gets all of them.
func WithSinglePolicy(c *Config, name Name) (*Config, error) {
	if _, ok := c.Policies[name]; !ok && name != defaultName {
		return nil, fmt.Errorf("no policy is named %q; there are %s", name, strings.Join(Texts(sortedKeys(c.Policies)), ", "))
	}
	t := Tenant{Policy: name, Knowledge: c.policy(name).Knowledge}
	if len(t.Knowledge) == 0 {
		t.Knowledge = sortedKeys(c.Knowledge)
	}
	return WithSingleTenant(c, name, t), nil
}

// WithSingleTenant returns a configuration in which all callers are the tenant t.
func WithSingleTenant(c *Config, name Name, t Tenant) *Config {
	one := *c
	one.Tenants, one.Identity.Unknown = map[Name]Tenant{name: t}, name
	one.resolve()
	return &one
}

// WithSingleBase returns a configuration with a single base, read from path. It is embedded if
// embed is true and c has an embedding service.
func WithSingleBase(c *Config, base Name, path string, embed bool) *Config {
	k := Knowledge{Path: path, Embed: embed && embeds(c)}
	k.SetDefaults()
	only := *c
	only.Knowledge = map[Name]Knowledge{base: k}
	return &only
}
