package server

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/inspector"
	"sidenote/proxy/tenant"
)

// Policies are the policies of a configuration. It implements inspector.Policies.
type Policies struct{ Config *config.Config }

// defaultName is the name of the policy that exists without being configured.
const defaultName = config.Name("default")

// Names lists the policies, including those that no tenant uses.
func (p Policies) Names() []string {
	names := slices.Collect(maps.Keys(p.Config.Policies))
	for _, tenant := range p.Config.TenantNames() {
		names = append(names, cmp.Or(p.Config.Tenants[tenant].Policy, defaultName))
	}
	slices.Sort(names)
	return config.Texts(slices.Compact(names))
}

// Resolve returns the policy of a tenant's requests, or what it would be if the tenant used the
// named policy.
func (p Policies) Resolve(tenant, policy string) (*tenant.Policy, []inspector.Setting) {
	cfg, name := p.Config, config.Name(tenant)
	if _, ok := cfg.Tenant(name); !ok && tenant != "" {
		return nil, nil
	}
	if policy != "" {
		if !slices.Contains(p.Names(), policy) {
			return nil, nil
		}
		t := cfg.Tenants[name]
		if t.Policy = config.Name(policy); len(cfg.Tenants) == 0 && len(cfg.Policies[t.Policy].Knowledge) == 0 {
			t.Knowledge = cfg.KnowledgeNames() // as without tenants
		}
		cfg = config.WithSingleTenant(cfg, name, t)
	}
	of, ok := cfg.Tenant(name)
	if !ok { // neither tenant nor policy given
		return nil, nil
	}
	return &of, settings(config.PolicyOrigins(cfg, name))
}

func settings(of []config.Setting) []inspector.Setting {
	list := make([]inspector.Setting, len(of))
	for i, s := range of {
		list[i] = inspector.Setting{Key: s.Key, Value: text(s.Value)}
		for _, from := range s.From {
			list[i].From = append(list[i].From, from.String())
		}
	}
	return list
}

// text formats a value for people: strings as they are, everything else as JSON.
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return strings.TrimSuffix(s, "\n")
	}
	return string(value)
}
