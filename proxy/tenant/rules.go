package tenant

import (
	"maps"
	"slices"
)

// A ClaimRule assigns tokens to a tenant: verified tokens of an issuer that have, for each of
// Claims, at least one of the values.
type ClaimRule struct {
	Tenant string
	Issuer string // the Issuer.Name
	Claims map[string][]string
}

// matches reports whether a token with claims belongs to the tenant.
func (r *ClaimRule) matches(claims map[string][]string) bool {
	for name, want := range r.Claims {
		if !intersect(claims[name], want) {
			return false
		}
	}
	return true
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(v string) bool { return slices.Contains(b, v) })
}

// implies reports whether every token that matches r also matches other.
func (r *ClaimRule) implies(other *ClaimRule) bool {
	for name, want := range other.Claims {
		have := r.Claims[name]
		if len(have) == 0 || slices.ContainsFunc(have, func(v string) bool { return !slices.Contains(want, v) }) {
			return false
		}
	}
	return true
}

// A claim is one value of a claim's name.
type claim struct{ name, value string }

// An index finds the matching rules of one issuer without trying all of them. Each rule is filed
// under the values of its most selective claim.
type index struct {
	rules map[claim][]*ClaimRule
	names []string // of the claims that rules are filed under
}

func newIndex(rules []*ClaimRule) *index {
	shared := map[claim]int{} // number of rules with a value
	for _, r := range rules {
		for name, values := range r.Claims {
			for _, v := range values {
				shared[claim{name, v}]++
			}
		}
	}
	x := &index{rules: map[claim][]*ClaimRule{}}
	names := map[string]bool{}
	for _, r := range rules {
		best, least := "", 0
		for _, name := range slices.Sorted(maps.Keys(r.Claims)) {
			n := 0
			for _, v := range r.Claims[name] {
				n += shared[claim{name, v}]
			}
			if best == "" || n < least {
				best, least = name, n
			}
		}
		for _, v := range r.Claims[best] {
			at := claim{best, v}
			x.rules[at] = append(x.rules[at], r)
		}
		names[best] = true
	}
	x.names = slices.Sorted(maps.Keys(names))
	return x
}

// each calls f for every rule that could match claims, until f returns false. It may call f twice
// for a rule.
func (x *index) each(claims map[string][]string, f func(*ClaimRule) bool) {
	for _, name := range x.names {
		for _, v := range claims[name] {
			for _, r := range x.rules[claim{name, v}] {
				if !f(r) {
					return
				}
			}
		}
	}
}

// tenant returns the tenant of a token with claims; several is true if more than one tenant
// matches.
func (x *index) tenant(claims map[string][]string) (tenant string, several bool) {
	x.each(claims, func(r *ClaimRule) bool {
		switch {
		case tenant == r.Tenant || !r.matches(claims):
		case tenant == "":
			tenant = r.Tenant
		default:
			several = true
		}
		return !several
	})
	return tenant, several
}

// An Overlap is a pair of rules of different tenants where every token that matches Rule also
// matches With, so that all such tokens would be refused.
type Overlap struct{ Rule, With ClaimRule }

// Overlaps finds the rules of different tenants that no token can tell apart. Rules that overlap
// only for some tokens are not returned; those tokens are refused.
func Overlaps(rules []ClaimRule) (found []Overlap) {
	all := indexes(rules)
	for i := range rules {
		r := &rules[i]
		all[r.Issuer].each(r.Claims, func(other *ClaimRule) bool {
			bound := other.Tenant != r.Tenant && r.implies(other)
			if bound {
				found = append(found, Overlap{*r, *other})
			}
			return !bound
		})
	}
	return found
}

// indexes returns an index of each issuer's rules, by the issuer's name.
func indexes(rules []ClaimRule) map[string]*index {
	of := map[string][]*ClaimRule{}
	for i := range rules {
		of[rules[i].Issuer] = append(of[rules[i].Issuer], &rules[i])
	}
	all := make(map[string]*index, len(of))
	for issuer, list := range of {
		all[issuer] = newIndex(list)
	}
	return all
}
