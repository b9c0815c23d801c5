package config

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config/spelling"
)

// A checker reports what is wrong with a Config that a loader has filled.
type checker struct{ delegation }

// check reports values that do not go together. It also fills in policies and tenants as
// far as they are valid.
func (c checker) check(offline bool) {
	c.checkListeners()
	c.checkUpstreams(offline)
	c.checkModels()
	c.checkState()
	c.checkBases()
	c.checkRedis()
	c.expandPolicies()
	c.checkPolicies()
	c.checkTenants()
	checkAllowedModels(c)
	checkCallers(c)
	c.checkDelegated()
	c.checkIdentity(offline)
	if c.ShutdownDelay != 0 && c.ShutdownDelay >= c.ShutdownGrace {
		c.problem("shutdown_delay", "%s is part of shutdown_grace, %s, and leaves nothing of it", c.ShutdownDelay, c.ShutdownGrace)
	}
}

func (c checker) checkListeners() {
	if c.Listen == Off {
		c.problem("listen", "cannot be off; write host:port")
	}
	if !c.Admin.Listen.Loopback() && c.Admin.Token == (Secret{}) && c.Admin.ReadToken == (Secret{}) {
		c.problem("admin.listen", "%s can be reached from other machines, so admin.token must be set", c.Admin.Listen)
	}
	if read := c.Admin.ReadToken.Value.Reveal(); read != "" && read == c.Admin.Token.Value.Reveal() {
		c.problem("admin.read_token", "is the same as admin.token, so who has it could write")
	}
	keys := []string{"listen", "admin.listen", "telemetry.listen"}
	at := []Address{c.Listen, c.Admin.Listen, c.Telemetry.Listen}
	for i := range at {
		for j := range i {
			if at[i] != Off && samePort(at[i], at[j]) {
				c.taken(keys[i], at[i], keys[j], at[j])
			}
		}
	}
}

// taken reports two listeners on one port, where the user wrote one of them.
func (c checker) taken(key string, at Address, other string, otherAt Address) {
	_, written := c.places[key]
	first, otherWritten := c.places[other]
	switch {
	case written && otherWritten:
		c.problem(key, "%s is taken by %s, at %s", at, other, first.Place)
	case otherWritten:
		c.problem(other, "%s is taken by %s, which is there by default", otherAt, key)
	default:
		c.problem(key, "%s is taken by %s", at, other)
	}
}

// samePort tells whether two listeners would want the same port of the same
// interface.
func samePort(a, b Address) bool {
	hostA, portA, errA := net.SplitHostPort(string(a))
	hostB, portB, errB := net.SplitHostPort(string(b))
	if errA != nil || errB != nil || number(portA) != number(portB) || number(portA) == "0" {
		return false
	}
	return hostA == hostB || every(hostA) || every(hostB) || loopback(hostA) && loopback(hostB)
}

// PortOf returns the port that requests to a URL go to, as a number without zeros before it.
func PortOf(u *url.URL) string {
	return number(cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
}

// number drops the zeros that a port may be written with.
func number(port string) string { return cmp.Or(strings.TrimLeft(port, "0"), "0") }

// every tells whether a listener's host is all interfaces.
func every(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

const defaultName = Name("default")

// upstreams is all of them by name.
func (c *Config) upstreams() map[Name]Upstream {
	all := map[Name]Upstream{}
	maps.Copy(all, c.Upstreams)
	if c.Upstream.BaseURL.URL != nil {
		all[defaultName] = c.Upstream
	}
	return all
}

func (c checker) checkUpstreams(offline bool) {
	_, written := c.places["upstream"]
	_, flagged := c.places["upstream.base_url"]
	if _, twice := c.Upstreams[defaultName]; twice && (written || flagged) {
		c.problem("upstreams.default", "is also what upstream defines; keep one")
	}
	if len(c.Upstreams) == 0 && !written && !flagged && !offline {
		c.problem("upstream", "is missing; name the API that requests go to, as in --upstream https://api.openai.com")
	}
	if c.Upstream.BaseURL.URL != nil {
		c.checkOwnAddress("upstream.base_url", c.Upstream)
	}
	for _, name := range sortedKeys(c.Upstreams) {
		if u := c.Upstreams[name]; u.BaseURL.URL != nil {
			c.checkOwnAddress("upstreams."+string(name)+".base_url", u)
		}
	}
}

// checkOwnAddress refuses an upstream that is one of our listeners: its requests would come
// back to us for ever.
func (c checker) checkOwnAddress(key string, u Upstream) {
	host, port := u.BaseURL.Hostname(), PortOf(u.BaseURL.URL)
	for _, own := range []Address{c.Listen, c.Admin.Listen, c.Telemetry.Listen} {
		ownHost, ownPort, err := net.SplitHostPort(string(own))
		if err != nil || number(ownPort) != port {
			continue
		}
		local := loopback(host) || every(host)
		if strings.EqualFold(ownHost, host) || local && (loopback(ownHost) || every(ownHost)) {
			c.problem(key, "%s is Sidenote's own address", u.BaseURL)
			return
		}
	}
}

func (c checker) checkModels() {
	seen := map[string]string{}
	for i, m := range c.Models {
		key := "models[" + itoa(i) + "]"
		switch {
		case m.Match == "":
			continue // reported as missing
		case strings.Contains(strings.TrimSuffix(m.Match, "*"), "*"):
			c.problem(key+".match", "%q has a * that is not at its end", m.Match)
		case m.Encoding == "" && m.Window == 0 && m.MaxOutputTokens == 0 && m.DefaultOutput == 0 && !m.Estimated && m.Roles == "":
			c.problem(key, "says nothing of %q; give encoding, window, max_output_tokens or roles", m.Match)
		case m.Window > 0 && m.MaxOutputTokens > m.Window:
			c.problem(key+".max_output_tokens", "%d is more than the window of %d", m.MaxOutputTokens, m.Window)
		}
		if m.MaxOutputTokens > 0 && m.DefaultOutput > m.MaxOutputTokens {
			c.problem(key+".default_output_tokens", "%d is more than max_output_tokens, %d", m.DefaultOutput, m.MaxOutputTokens)
		}
		if before, ok := seen[m.Match]; ok {
			c.problem(key+".match", "%q is also %s, which wins", m.Match, before)
			continue
		}
		seen[m.Match] = key
	}
}

func (c checker) checkPolicies() {
	for _, name := range sortedKeys(c.Policies) {
		p, key := c.Policies[name], "policies."+string(name)
		if p.Upstream != "" {
			known(c.Config, key+".upstream", "upstream", p.Upstream, c.upstreams())
		}
		c.checkKnowledge(key+".knowledge", p.Knowledge)
		checkTreatment(c, key, p.Treatment)
		checkOverrides(c, key, p)
	}
}

func checkTreatment(c checker, key string, t Treatment) {
	if t.Retrieval.TopK > t.Retrieval.NumCandidates {
		c.problem(key+".retrieval.top_k", "%d is more than num_candidates, %d", t.Retrieval.TopK, t.Retrieval.NumCandidates)
	}
	names := map[Name]bool{"sources": true}
	for i, part := range t.Components {
		if names[part.Name] && part.Name != "" {
			c.problem(key+".components["+itoa(i)+"].name", "%q is taken", part.Name)
		}
		names[part.Name] = true
	}
}

func (c checker) checkKnowledge(key string, names []Name) {
	for i, k := range names {
		known(c.Config, key+"["+itoa(i)+"]", "base", k, c.Knowledge)
	}
}

// known reports a name that nobody defined.
func known[V any](c *Config, key, what string, name Name, defined map[Name]V) bool {
	if _, ok := defined[name]; ok || name == "" {
		return ok
	}
	c.problem(key, "no %s is named %q%s", what, name, spelling.DidYouMean(string(name), Texts(sortedKeys(defined))))
	return false
}

func sortedKeys[V any](m map[Name]V) []Name { return slices.Sorted(maps.Keys(m)) }
