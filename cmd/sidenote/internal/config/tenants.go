package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// checkTenants checks the references of each tenant. Without tenants, all callers use the policy
// default; a command that is offline can be told another one.
func (c checker) checkTenants(offline bool) {
	if len(c.Tenants) == 0 {
		if _, ok := c.Policies[defaultName]; !ok && len(c.Policies) > 0 && !offline {
			c.problem("policies", "none is named default and there are no tenants, so nobody would use them")
		}
		c.checkChoice("policies.default", defaultName)
		return
	}
	type keyOf struct {
		tenant Name
		at     string
	}
	owner := map[Digest]keyOf{}
	for _, name := range sortedKeys(c.Tenants) {
		t, key := c.Tenants[name], "tenants."+string(name)
		if t.Policy != "" && known(c.Config, key+".policy", "policy", t.Policy, c.Policies) || t.Policy == "" {
			c.checkChoice(key, t.policyName())
		}
		if name == refuse {
			c.problem(key, "is reserved: identity.unknown uses it to refuse callers; choose another name")
		}
		c.checkKnowledge(key+".knowledge", t.Knowledge)
		p := c.policy(t.policyName())
		if len(t.Knowledge) == 0 && len(p.Knowledge) == 0 && len(c.Knowledge) > 0 && p.Mode != "off" {
			c.problem(key+".knowledge", "is missing; list the bases that this tenant may search, of %s",
				strings.Join(Texts(sortedKeys(c.Knowledge)), ", "))
		}
		if len(t.Keys)+len(t.JWT) == 0 && !c.Identity.Header.Used() && c.Identity.Unknown != name && !ofPort(c, name) {
			c.problem(key+".keys", "is missing: add keys, jwt or a listener; no request can be identified as this tenant")
		}
		for i, k := range t.Keys {
			at := key + ".keys[" + itoa(i) + "]"
			if before, ok := owner[k.SHA256]; ok && k.SHA256 != (Digest{}) {
				c.problem(at+".sha256", "is also a key of tenant %q, at %s", before.tenant, c.Place(before.at))
			}
			owner[k.SHA256] = keyOf{name, at + ".sha256"}
			c.checkKey(at, k, t.Keys[:i])
		}
	}
}

// checkKey checks a key of a tenant; before are the tenant's keys listed before it.
func (c checker) checkKey(at string, k Key, before []Key) {
	if k.Name != "" && slices.ContainsFunc(before, func(other Key) bool { return other.Name == k.Name }) {
		c.problem(at+".name", "%q is the name of another key of this tenant", k.Name)
	}
	if !k.Expires.IsZero() && k.NotBefore.After(k.Expires.Time) {
		c.problem(at+".not_before", "%s is after expires, %s", k.NotBefore.Format(time.DateOnly), k.Expires.Format(time.DateOnly))
	}
}

// Expired lists the keys of tenants and the admin tokens whose last day is over at the given time, and
// the certificates that are not valid then.
func (c *Config) Expired(now time.Time) strictyaml.Problems {
	var expired strictyaml.Problems
	for _, name := range sortedKeys(c.Tenants) {
		for i, k := range c.Tenants[name].Keys {
			if end := k.Expires.End(); !end.IsZero() && now.After(end) {
				key := "tenants." + string(name) + ".keys[" + itoa(i) + "].expires"
				expired = append(expired, strictyaml.Problem{Place: c.Place(key), Key: key, Reason: k.Expires.Format(time.DateOnly) + " has passed; whoever has this key is refused"})
			}
		}
	}
	return slices.Concat(expired, c.expiredTokens(now), expiredCertificates(c, now), overExperiments(c, now))
}

// checkChoice refuses a policy that is used but has no upstream, if there are several.
func (c checker) checkChoice(key string, policy Name) {
	if c.upstreamOf(policy) == "" && len(c.Upstreams) > 0 {
		c.problem(key, "policy %q has no upstream; choose one of %s", policy, strings.Join(Texts(sortedKeys(c.upstreams())), ", "))
	}
}

// checkIdentity checks how callers without a key are treated. An offline command has no callers.
func (c checker) checkIdentity(offline bool) {
	unknown, anybody := c.Identity.Unknown, true
	switch {
	case len(c.Tenants) == 0 && unknown != "":
		c.problem("identity.unknown", "%q needs tenants, and there are none", unknown)
		return
	case len(c.Tenants) == 0:
		unknown = defaultName
	case unknown == "" || unknown == refuse:
		anybody = false
	case !known(c.Config, "identity.unknown", "tenant", unknown, c.Tenants):
		return
	}
	if c.Identity.Open || offline {
		return
	}
	if open := c.Listen.Open(anybody); len(open) > 0 {
		c.refuseOpen(cmp.Or(open[0].Tenant, unknown), open)
	}
	if c.MCP.Listen == Off {
		return
	}
	if open := (Ports{c.MCP.Port()}).Open(anybody); len(open) > 0 {
		c.problem("mcp.listen", openText, open, opener(c, cmp.Or(open[0].Tenant, unknown), open))
	}
}

// refuseOpen refuses data ports that other machines can reach and where some callers need no key.
// Those callers are the tenant unknown.
func (c checker) refuseOpen(unknown Name, open Ports) {
	up := c.upstreamOf(c.Tenants[unknown].policyName())
	if c.upstreams()[up].APIKey != (Secret{}) {
		c.problem("listen", "%s can be reached from other machines and upstream %q has an api_key, which callers without a key of their own would use; "+
			"define tenants with keys and identity.unknown: refuse, or listen on 127.0.0.1", open, up)
		return
	}
	c.problem("listen", openText, open, opener(c, unknown, open))
}

// openText is the problem of such ports; opener gives the reason.
const openText = "%s can be reached from other machines, and %s; give tenants keys, listen on 127.0.0.1, " +
	"or say that anyone may ask, by identity: {open: true} or --open"

// opener says why ports are open.
func opener(c checker, unknown Name, open Ports) string {
	switch {
	case open[0].Tenant != "":
		return fmt.Sprintf("its callers are tenant %q without a key", unknown)
	case len(c.Tenants) > 0:
		return fmt.Sprintf("callers that no key names are tenant %q", unknown)
	}
	return "callers need no key"
}

func (t Tenant) policyName() Name { return cmp.Or(t.Policy, defaultName) }

// policy returns the complete policy of that name, or the built-in one if default is not defined.
func (c *Config) policy(name Name) Policy {
	if p, ok := c.Policies[name]; ok {
		return p
	}
	return DefaultPolicy()
}

// upstreamOf returns the upstream of a policy, or "" if it cannot be determined.
func (c *Config) upstreamOf(policy Name) Name {
	if up := c.policy(policy).Upstream; up != "" {
		return up
	}
	all := c.upstreams()
	if _, ok := all[defaultName]; ok {
		return defaultName
	}
	if len(all) == 1 {
		return sortedKeys(all)[0]
	}
	return ""
}
