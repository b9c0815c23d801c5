package review

import "sidenote/cmd/sidenote/internal/config"

// PricesOfNothing lists tenants whose money is limited although no model has a price: each
// request of theirs that uses tokens would be refused.
func PricesOfNothing(cfg *config.Config) (list config.Problems) {
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		if terms := &p.Budget; !terms.Money() || len(terms.Prices) > 0 || terms.Unpriced != nil {
			continue
		}
		key := "policies." + p.Name + ".limits"
		if l := cfg.Tenants[name].Limits; l.USDPerDay+l.USDPerMonth > 0 {
			key = "tenants." + string(name) + ".limits"
		}
		list = append(list, config.Problem{Place: cfg.Place(key), Key: key, Reason: "money is limited and no model has a price, so requests of tenant " +
			string(name) + " get a 403; give prices, or the policy a default_price"})
	}
	return list
}
