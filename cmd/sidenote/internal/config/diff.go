package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/strictyaml"
)

// Changes are the differences between two configurations. Without any, both lists are empty.
type Changes struct {
	Tenants []TenantDiff `json:"tenants"` // affected tenants, by name
	Keys    []Change     `json:"keys"`    // outside of policies and tenants, in the order of the schema
}

// How a configuration affects a tenant.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// A TenantDiff is a tenant that a change affects.
type TenantDiff struct {
	Name    Name     `json:"name"`
	Kind    string   `json:"what"`    // Added, Removed or Changed
	Changes []Change `json:"changes"` // of one that exists before and after
}

// A Change is a key with two values. The keys of a tenant are those of its whole policy, including
// what is inherited; of the tenant itself; of its upstream and bases; of the issuers and peers
// that may name it; of the prices and budgets behind its limits; listen, for its own ports; and
// identity.unknown, if that is the tenant.
type Change struct {
	Key string `json:"key"`
	Old string `json:"old"` // as in a file; "" is not set
	New string `json:"new"`

	// Secret says that the content of the named variable or file has changed; its name may be the
	// same.
	Secret bool `json:"secret,omitempty"`

	// OldSHA256 and NewSHA256 are the first 8 hex digits of the SHA-256 of the secrets; "" if the key
	// is no secret, or not set.
	OldSHA256 string `json:"-"`
	NewSHA256 string `json:"-"`

	// Restart says that a running process keeps the old value until it is restarted.
	Restart bool `json:"restart,omitempty"`
}

// Empty reports whether nothing has changed.
func (c Changes) Empty() bool { return len(c.Tenants) == 0 && len(c.Keys) == 0 }

// CompareConfigs returns the changes from old to next. Both have been loaded.
func CompareConfigs(old, next *Config) Changes {
	c := comparison{old: old, next: next, fields: strictyaml.Cache{}}
	changes := Changes{Tenants: []TenantDiff{}, Keys: compare(c.fields.Differing(apart(old), apart(next)))}
	for i := range changes.Keys {
		changes.Keys[i].Restart = waits(changes.Keys[i].Key, old, next)
	}
	c.shared = changes.Keys
	names := slices.Concat(old.TenantNames(), next.TenantNames())
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if t := c.tenant(name); t.Kind != "" {
			changes.Tenants = append(changes.Tenants, t)
		}
	}
	return changes
}

// apart returns a configuration without what is compared tenant by tenant.
func apart(c *Config) Config {
	rest := *c
	rest.Policies, rest.Tenants = nil, nil
	return rest
}

// A comparison compares tenants after everything else has been compared.
type comparison struct {
	old, next *Config
	shared    []Change // changes of all other keys
	fields    strictyaml.Cache
}

// tenant returns how a tenant is affected; What is "" if it is not.
func (c comparison) tenant(name Name) TenantDiff {
	_, before := c.old.Tenant(name)
	_, after := c.next.Tenant(name)
	t := TenantDiff{Name: name, Changes: []Change{}}
	switch {
	case !before:
		t.Kind = Added
	case !after:
		t.Kind = Removed
	default:
		oldPolicy, newPolicy := c.old.Policy(name), c.next.Policy(name)
		t.Changes = append(t.Changes, compare(c.fields.Differing(oldPolicy, newPolicy))...)
		before, after := c.fields.Differing(c.old.Tenants[name], c.next.Tenants[name])
		t.Changes = append(t.Changes, compare(c.own(before), c.own(after))...)
		t.Changes = append(t.Changes, c.used(name, oldPolicy, newPolicy)...)
		t.Changes = append(t.Changes, c.callers(name)...)
		if len(t.Changes) > 0 {
			t.Kind = Changed
		}
	}
	return t
}

// callers returns the changes of which callers become the tenant without credentials: those on its
// ports, and unknown ones.
func (c comparison) callers(name Name) (changes []Change) {
	if before, after := portsOf(c.old, name), portsOf(c.next, name); before != after {
		changes = append(changes, Change{Key: "listen", Old: before, New: after, Restart: true})
	}
	if before, after := c.old.MCP.Tenant, c.next.MCP.Tenant; before != after && (before == name || after == name) {
		changes = append(changes, Change{Key: "mcp.tenant", Old: string(before), New: string(after), Restart: true})
	}
	if before, after := c.old.Identity.Unknown, c.next.Identity.Unknown; before != after && (before == name || after == name) {
		changes = append(changes, Change{Key: "identity.unknown", Old: string(before), New: string(after)})
	}
	return changes
}

// portsOf lists the ports whose callers are a tenant, as a file would have them; "" for none.
func portsOf(c *Config, tenant Name) string {
	var ports []string
	for _, l := range c.Listen {
		if l.Tenant == tenant {
			ports = append(ports, l.Shown())
		}
	}
	return strings.Join(ports, ", ")
}

// own returns the settings of a tenant that are not part of its policy.
func (c comparison) own(settings []strictyaml.Setting) []strictyaml.Setting {
	policy := strictyaml.Keys(c.fields.Fields(reflect.TypeFor[Policy]()))
	return slices.DeleteFunc(settings, func(s strictyaml.Setting) bool {
		top, _, _ := strings.Cut(s.Key, ".")
		return slices.Contains(policy, top)
	})
}

// used returns the changes of shared settings that a tenant used before and still uses.
func (c comparison) used(name Name, before, after Policy) []Change {
	if len(c.shared) == 0 {
		return nil
	}
	prefixes := c.naming(name)
	if before.Limits != (Limits{}) && after.Limits != (Limits{}) {
		prefixes = append(prefixes, "budgets.")
	}
	if hasMoney(before.Limits) && hasMoney(after.Limits) {
		prefixes = append(prefixes, "prices.")
	}
	if before.Upstream == after.Upstream {
		prefixes = append(prefixes, "upstreams."+string(after.Upstream)+".")
		if after.Upstream == "default" {
			prefixes = append(prefixes, "upstream.")
		}
	}
	for _, base := range after.Knowledge {
		if slices.Contains(before.Knowledge, base) {
			prefixes = append(prefixes, "knowledge."+string(base)+".")
		}
	}
	return slices.DeleteFunc(slices.Clone(c.shared), func(change Change) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(change.Key, p) })
	})
}

// naming returns the prefixes of the keys that map callers to a tenant, beside the tenant's own.
func (c comparison) naming(name Name) []string {
	prefixes := []string{"identity.header."}
	for issuer := range c.next.Tenants[name].JWT {
		if _, before := c.old.Tenants[name].JWT[issuer]; before {
			prefixes = append(prefixes, "identity.jwt."+string(issuer)+".")
		}
	}
	return prefixes
}

func hasMoney(l Limits) bool { return l.USDPerDay+l.USDPerMonth > 0 }

// secretSum returns the beginning of the digest of a secret; "" for other settings.
func secretSum(s strictyaml.Setting) string {
	if !s.Value.IsValid() {
		return ""
	}
	if secret, ok := s.Value.Interface().(interface{ sum() string }); ok {
		return secret.sum()
	}
	return ""
}

// compare returns the differences of two lists of settings, in their order.
func compare(before, after []strictyaml.Setting) []Change {
	changes := []Change{}
	if len(before)+len(after) == 0 {
		return changes
	}
	old := make(map[string]strictyaml.Setting, len(before))
	for _, s := range before {
		old[s.Key] = s
	}
	for _, s := range after {
		was, there := old[s.Key]
		delete(old, s.Key)
		hidden := there && was.Text == s.Text && !reflect.DeepEqual(was.Value.Interface(), s.Value.Interface())
		if was.Text != s.Text || hidden {
			changes = append(changes, Change{Key: s.Key, Old: was.Text, New: s.Text, Secret: hidden, OldSHA256: secretSum(was), NewSHA256: secretSum(s)})
		}
	}
	for _, s := range before {
		if _, gone := old[s.Key]; gone {
			changes = append(changes, Change{Key: s.Key, Old: s.Text, OldSHA256: secretSum(s)})
		}
	}
	order := make(map[string]int, len(before)+len(after))
	for i, s := range slices.Concat(before, after) {
		order[s.Key] = i
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(order[a.Key], order[b.Key]) })
	return changes
}
