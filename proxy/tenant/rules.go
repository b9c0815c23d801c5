package tenant

import (
	"maps"
	"slices"
)

// A ClaimRule says which tokens name a tenant: verified ones of an issuer that have, of each of
// Claims, one of the values at least.
type ClaimRule struct {
	Tenant string
	Issuer string // the Issuer.Name
	Claims map[string][]string
}

// matches tells whether a token with claims names the tenant.
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

// implies tells whether every token that matches r is bound to match other.
func (r *ClaimRule) implies(other *ClaimRule) bool {
	for name, want := range other.Claims {
		have := r.Claims[name]
		if len(have) == 0 || slices.ContainsFunc(have, func(v string) bool { return !slices.Contains(want, v) }) {
			return false
		}
	}
	return true
}

// A claim is one value of one name.
type claim struct{ name, value string }

// An index finds the rules of one issuer without trying all of them: each rule stands under
// the values of that claim of its own which the fewest rules share.
type index struct {
	rules map[claim][]*ClaimRule
	names []string // of claims that rules stand under
}

func newIndex(rules []*ClaimRule) *index {
	shared := map[claim]int{} // how many rules name a value
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

// each calls f for every rule that could match claims, until f returns false. It may call f
// twice for a rule.
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

// tenant returns the one tenant that claims name; several is true if there are more.
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

// An Overlap says that every token that names one rule's tenant names another's too, so that
// all of them would be refused.
type Overlap struct{ Rule, With ClaimRule }

// Overlaps finds the rules of different tenants that no token can tell apart. Others may
// overlap for some tokens only; those tokens are refused.
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
