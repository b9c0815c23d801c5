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

// Policies are those of a configuration. It implements inspector.Policies.
type Policies struct{ Config *config.Config }

// defaultName is that of the policy which is there though nobody writes it.
const defaultName = config.Name("default")

// Names lists the policies, those too that no tenant has.
func (p Policies) Names() []string {
	names := slices.Collect(maps.Keys(p.Config.Policies))
	for _, tenant := range p.Config.TenantNames() {
		names = append(names, cmp.Or(p.Config.Tenants[tenant].Policy, defaultName))
	}
	slices.Sort(names)
	return config.Texts(slices.Compact(names))
}

// Resolve returns what requests of a tenant get, or would get under a policy.
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
		cfg = config.For(cfg, name, t)
	}
	of, ok := cfg.Tenant(name)
	if !ok { // neither is named
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

// text is a value for people: a text as it is, all else in JSON.
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return strings.TrimSuffix(s, "\n")
	}
	return string(value)
}
