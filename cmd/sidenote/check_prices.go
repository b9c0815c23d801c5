package main

import (
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval/services"
)

// unusedPrices lists tenants with a money limit although no model has a price: each of their
// requests that uses tokens would be refused.
func unusedPrices(cfg *config.Config) (list strictyaml.Problems) {
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		if terms := &p.Budget; !terms.Money() || len(terms.Prices) > 0 || terms.Unpriced != nil {
			continue
		}
		key := "policies." + p.Name + ".limits"
		if l := cfg.Tenants[name].Limits; l.USDPerDay+l.USDPerMonth > 0 {
			key = "tenants." + string(name) + ".limits"
		}
		list = append(list, strictyaml.Problem{Place: cfg.Place(key), Key: key, Reason: "money is limited and no model has a price, so requests of tenant " +
			string(name) + " get a 403; give prices, or the policy a default_price"})
	}
	return list
}

// HelpersWithoutPrice lists tenants with a money limit whose planner, reranker or grader uses a
// chat model without a price, so that it would never be called.
func unpricedHelpers(cfg *config.Config) (list strictyaml.Problems) {
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		lacks := func(model, setting, outcome string) {
			if _, err := p.Budget.PricesOf(model); err == nil || model == "" || len(p.Budget.Prices) == 0 {
				return
			}
			key := "policies." + p.Name + "." + setting
			list = append(list, strictyaml.Problem{Place: cfg.Place(key), Key: key, Reason: "money of tenant " +
				string(name) + " is limited and " + model + " has no price, so nothing is " + outcome + "; give it one in prices"})
		}
		lacks(p.Rewrite.Planner.Model, "planner.model", "planned")
		if p.Rewrite.Rerank.Dialect == string(services.RerankLLM) {
			lacks(p.Rewrite.Rerank.Model, "rerank.model", "reranked")
		}
		lacks(p.Rewrite.Grade.Model, "grade.model", "graded")
	}
	return list
}
