package tenant_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"pgregory.net/rapid"

	"sidenote/proxy/tenant"
	"sidenote/proxy/tenant/tenanttest"
)

// The index finds the same rules as trying them one by one. An overlap is reported exactly where
// every token that matches one rule also matches the other.
func TestRules(t *testing.T) {
	s, now := tenanttest.NewSigner(t), time.Now()
	issuer := s.Trusted()
	values := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1", "2", "3"}), 1, 3, rapid.ID)
	claims := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), values, 1, 3)
	rapid.Check(t, func(t *rapid.T) {
		rules := make([]tenant.ClaimRule, rapid.IntRange(1, 5).Draw(t, "rules"))
		for i := range rules {
			rules[i] = rule(fmt.Sprint("t", i/2), claims.Draw(t, "claims")) // a tenant may have two rules
		}
		has := claims.Draw(t, "token")
		var tenants []string
		for _, r := range rules {
			if !slices.Contains(tenants, r.Tenant) && matches(r.Claims, has) {
				tenants = append(tenants, r.Tenant)
			}
		}
		all := map[string]any{}
		for name, list := range has {
			all[name] = list
		}
		v := tenant.NewVerifier([]tenant.Issuer{issuer}, rules)
		got, why := verify(v, s.Sign(jose.ES256, s.EC, tenanttest.EC, tenanttest.Claims(now, all)), now)
		switch {
		case len(tenants) == 0 && why == tenant.TokenNoTenant, len(tenants) > 1 && why == tenant.TokenSeveralTenants:
		case len(tenants) == 1 && got != nil && got.Tenant == tenants[0]:
		default:
			t.Fatalf("%+v of %v, %q; want %v", got, rules, why, tenants)
		}
		found := tenant.Overlaps(rules)
		for _, r := range rules {
			var certain []string // tenants that every token of r also matches
			for _, other := range rules {
				if other.Tenant != r.Tenant && alwaysWith(r.Claims, other.Claims) {
					certain = append(certain, other.Tenant)
				}
			}
			reported := slices.ContainsFunc(found, func(o tenant.Overlap) bool {
				return o.Rule.Tenant == r.Tenant && fmt.Sprint(o.Rule.Claims) == fmt.Sprint(r.Claims) && slices.Contains(certain, o.With.Tenant)
			})
			if reported != (len(certain) > 0) {
				t.Fatalf("%v is always of %v; reported are %v", r, certain, found)
			}
		}
	})
}

func matches(want, has map[string][]string) bool {
	for name, values := range want {
		if !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(has[name], v) }) {
			return false
		}
	}
	return true
}

// alwaysWith tries the tokens that have one value of each claim of a rule: if any token matches it
// without the other rule, one of these does.
func alwaysWith(r, other map[string][]string) bool {
	tokens := []map[string][]string{{}}
	for name, values := range r {
		var longer []map[string][]string
		for _, token := range tokens {
			for _, v := range values {
				next := map[string][]string{name: {v}}
				for n, have := range token {
					next[n] = have
				}
				longer = append(longer, next)
			}
		}
		tokens = longer
	}
	return !slices.ContainsFunc(tokens, func(token map[string][]string) bool { return !matches(other, token) })
}

// The token cache is bounded; the last token is always in it.
func TestCacheIsBounded(t *testing.T) {
	v := tenant.NewVerifier(nil, nil)
	for i := range 2000 {
		size := 1 + i*7919%tenant.MaxToken
		if !tenant.Cache(v, [32]byte{byte(i), byte(i >> 8)}, size) {
			t.Fatalf("token %d is not in the cache", i)
		}
		tenant.Cache(v, [32]byte{byte(i), byte(i >> 8)}, size) // from two requests at once
	}
	if n := tenant.Cached(v); n > 8<<20 || n < 7<<20 {
		t.Errorf("%d bytes of tokens are cached", n)
	}
}
