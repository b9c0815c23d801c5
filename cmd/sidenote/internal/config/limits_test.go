package config_test

import (
	"fmt"
	"strings"
	"testing"

	"sidenote/cache/budget"
	"sidenote/cmd/sidenote/internal/config"
)

// A limit that is blank, zero, negative or not a number never means unlimited. Nonsensical ladders
// and prices are refused, with line and column.
func TestLimitsRefused(t *testing.T) {
	const up = "upstream: https://u.test\n"
	for file, want := range map[string]string{
		"policies: {default: {limits: {tokens_per_day: }}}":                                     "policies.default.limits.tokens_per_day: is blank",
		"policies: {default: {limits: {tokens_per_day: 0}}}":                                    "c.yaml:2:47: policies.default.limits.tokens_per_day: 0 is out of range; use 1 to 1000000M",
		"policies: {default: {limits: {tokens_per_day: -5}}}":                                   "c.yaml:2:47: policies.default.limits.tokens_per_day: -5 is out of range",
		"policies: {default: {limits: {tokens_per_day: .nan}}}":                                 `c.yaml:2:47: policies.default.limits.tokens_per_day: ".nan" is not a whole number`,
		"policies: {default: {limits: {usd_per_day: 0}}}":                                       "c.yaml:2:44: policies.default.limits.usd_per_day: 0 is out of range; use 0.01 to 1000000",
		"policies: {default: {limits: {usd_per_day: -1}}}":                                      `c.yaml:2:44: policies.default.limits.usd_per_day: "-1" is not an amount of money`,
		"policies: {default: {limits: {usd_per_day: NaN}}}":                                     `c.yaml:2:44: policies.default.limits.usd_per_day: "NaN" is not an amount of money`,
		"policies: {default: {limits: {tokens_per_dya: 5}}}":                                    "c.yaml:2:31: policies.default.limits.tokens_per_dya: unknown key; did you mean tokens_per_day?",
		"policies: {default: {limits: {}}}":                                                     "c.yaml:2:30: policies.default.limits: is blank",
		"policies: {default: {ladder: [refuse, no_sources]}}":                                   "policies.default.ladder[0]: refuse ends the ladder, so nothing may follow it",
		"policies: {default: {ladder: [no_sources]}}":                                           "policies.default.ladder: must end with refuse, as limits hold",
		"policies: {default: {grounding: strict, ladder: [fewer_sources, no_sources, refuse]}}": "c.yaml:2:65: policies.default.ladder[1]: no_sources would answer without the sources that grounding: strict rests on; leave it out",
		"policies: {default: {ladder: [no_reranker, refuse]}}":                                  `c.yaml:2:31: policies.default.ladder[0]: "no_reranker" is none of no_stages, fewer_sources, shorter_sources, no_planner, no_sources, refuse`,
		"policies: {default: {ladder: [no_sources, no_sources, refuse]}}":                       "listed twice",
		"prices: [{match: a, input: -1, output: 2}]":                                            "c.yaml:2:28: prices[0].input: ",
		"prices: [{match: a, input: .nan, output: 2}]":                                          "c.yaml:2:28: prices[0].input: ",
		"prices: [{match: a, output: 2}]":                                                       "prices[0].input: is missing",
		"prices: [{match: a, input: 1, cache_write: -1, output: 2}]":                            `c.yaml:2:44: prices[0].cache_write: "-1" is not an amount`,
		"prices: [{match: a, input: 1, cache_write_1h: x, output: 2}]":                          `c.yaml:2:47: prices[0].cache_write_1h: "x" is not an amount`,
		"prices: [{match: a, input: 1, output: 2, tiers: {}}]":                                  "c.yaml:2:49: prices[0].tiers: is blank",
		"prices: [{match: a, input: 1, output: 2, tiers: {priority: {input: 2}}}]":              "prices[0].tiers.priority.output: is missing",
		"prices: [{match: a, input: 1, output: 2, tiers: {priority: {input: 2, output: x}}}]":   `c.yaml:2:79: prices[0].tiers.priority.output: "x" is not an amount`,
		"prices: [{match: a, input: 1, output: 2, tiers: {auto: {input: 2, output: 2}}}]":       "c.yaml:2:50: prices[0].tiers: auto leaves the tier to the upstream",
		"prices: [{match: a, input: 1, output: 2, tiers: {'': {input: 2, output: 2}}}]":         "c.yaml:2:50: prices[0].tiers",
		"policies: {default: {default_price: {input: 1, cache_write: 1e3, output: 2}}}":         `c.yaml:2:61: policies.default.default_price.cache_write: "1e3" is not an amount`,
		"budgets: {replicas: 0}":                                                                "c.yaml:2:21: budgets.replicas: 0 is out of range",
		"policies: {default: {limits: {tokens_per_day: 5}}}\nbudgets: {replicas: 2}":            "c.yaml:3:11: budgets.replicas: 2 replicas that each count for themselves",
		"policies: {default: {limits: {tokens_per_day: 5}}}\nbudgets: {on_failure: allow}":      `c.yaml:3:23: budgets.on_failure: "allow" is none of fail_closed, allowance`,
	} {
		_, err := config.Load(disk{"c.yaml": up + file}.source("c.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", file, err, want)
		}
	}
}

// A tenant's limits narrow those of its policy, and never widen them.
func TestTenantsLimitsNarrow(t *testing.T) {
	const file = "upstream: https://u.test\npolicies: {default: {limits: {requests_per_minute: 10, tokens_per_day: 100}}}\n" +
		"tenants: {a: {keys: [" + digest + "], limits: {requests_per_minute: 20, tokens_per_day: 50, usd_per_day: 0.50}}}"
	c, err := config.Load(disk{"c.yaml": file}.source("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := c.Tenant("a")
	want := budget.Limits{budget.RequestsPerMinute: 10, budget.TokensPerDay: 50, budget.MoneyPerDay: budget.USD / 2}
	if p.Budget.Limits != want || !p.Metered || len(p.Budget.Ladder) != 3 {
		t.Errorf("%+v, metered %t", p.Budget, p.Metered)
	}
}

// The default ladder has no rung that drops sources if the policy, or an override, requires them.
func TestLadderOfGroundedPolicies(t *testing.T) {
	const file = "upstream: https://u.test\n" +
		"policies:\n  a: {grounding: strict}\n  b: {overrides: [{models: [m], grounding: strict}]}\n" +
		"  c: {extends: a, grounding: default}\n  base: {ladder: [no_sources, refuse]}\n  e: {extends: base, grounding: strict}\n  d: {grounding: strict, ladder: [shorter_sources, refuse]}\n" +
		"tenants: {a: {keys: [" + digest + "], policy: a, limits: {tokens_per_day: 9}}}\nidentity: {unknown: a}"
	for policy, want := range map[string]string{
		"a": "[fewer_sources shorter_sources]", "b": "[fewer_sources shorter_sources no_sources]",
		"c": "[fewer_sources shorter_sources no_sources]", "d": "[shorter_sources]", "base": "[no_sources]", "e": "[]",
	} {
		c, err := config.Load(disk{"c.yaml": strings.Replace(file, "policy: a", "policy: "+policy, 1)}.source("c.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := c.Tenant("a")
		if got := fmt.Sprint(p.Budget.Ladder); got != want {
			t.Errorf("%s: %s, want %s", policy, got, want)
		}
		if policy == "b" && fmt.Sprint(p.Overrides[0].Policy.Budget.Ladder) != "[fewer_sources shorter_sources]" {
			t.Errorf("override: %v", p.Overrides[0].Policy.Budget.Ladder)
		}
	}
}

// Cache writes cost the same as other input by default. The prices of a tier inherit nothing from
// their row.
func TestPricesOfWritesAndTiers(t *testing.T) {
	const file = `upstream: https://u.test
prices:
- {match: gpt-5.6*, input: 5, cached_input: 0.5, cache_write: 6.25, output: 30, tiers: {priority: {input: 10, output: 60}, flex: {input: 2.5, cache_write: 3, cache_write_1h: 4, output: 15}}}
- {match: claude*, input: 3, cache_write: 3.75, cache_write_1h: 6, output: 15}
`
	c, err := config.Load(disk{"c.yaml": file}.source("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	table := config.PriceTable(c.Prices)
	gpt, _ := table.Find("gpt-5.6-mini")
	claude, _ := table.Find("claude-opus-4-8")
	for name, c := range map[string]struct{ got, want budget.Prices }{
		"usual":    {gpt.Prices, budget.Prices{Input: 5e6, CachedInput: 5e5, CacheWrite: 625e4, CacheWrite1h: 10e6, Output: 30e6}},
		"priority": {gpt.Tiers["priority"], budget.Prices{Input: 10e6, CachedInput: 10e6, CacheWrite: 125e5, CacheWrite1h: 20e6, Output: 60e6}},
		"flex":     {gpt.Tiers["flex"], budget.Prices{Input: 25e5, CachedInput: 25e5, CacheWrite: 3e6, CacheWrite1h: 4e6, Output: 15e6}},
		"an hour":  {claude.Prices, budget.Prices{Input: 3e6, CachedInput: 3e6, CacheWrite: 375e4, CacheWrite1h: 6e6, Output: 15e6}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", name, c.got, c.want)
		}
	}
	if len(gpt.Tiers) != 2 || claude.Tiers != nil {
		t.Errorf("%v, %v", gpt.Tiers, claude.Tiers)
	}
}
