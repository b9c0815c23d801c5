package report

import (
	"github.com/prometheus/client_golang/prometheus"

	"sidenote/cache/budget"
)

// promptMetrics count how the caches of upstreams treat prompts, and what added context costs. Their
// label "model" is a row of the model table. There are no series before the first answer that
// reports usage.
type promptMetrics struct {
	tenants      *tenantNames
	policies     *names
	tokens, cost *prometheus.CounterVec
	misses       *prometheus.CounterVec
	recent       recentSeries[promptKey, *promptSeries]
}

// A promptKey holds what selects the series that count a prompt.
type promptKey struct{ tenant, policy, model string }

// A promptSeries holds the series that count the prompts with one key.
type promptSeries struct {
	app, context promptCounters
	cost         prometheus.Counter
}

// promptCounters count tokens by how the upstream's cache treated them.
type promptCounters struct{ read, written, none prometheus.Counter }

func newPromptMetrics(f factory, tenants *tenantNames, policies *names) promptMetrics {
	return promptMetrics{
		tenants: tenants, policies: policies,
		tokens: f.counters("prompt_tokens_total", "Prompt tokens of chats, by part (app, context) and use of the upstream's cache (read, write, none). Those of context are estimated.",
			"tenant", "policy", "model", "part", "cache"),
		misses: f.counters("cache_diagnoses_total", "Answers of upstreams that were asked why their prompt cache missed.", "upstream", "reason"),
		cost:   f.counters("context_cost_usd_total", "US dollars that added context cost, estimated.", "tenant", "policy", "model"),
	}
}

// recordPrompt counts the prompt of a chat whose answer reported usage.
func (m *promptMetrics) recordPrompt(r *Report) {
	u, c := &r.Usage, &r.Context
	if u.Input <= 0 {
		return
	}
	key := promptKey{m.tenants.key(r.Tenant), r.Policy, r.Model()}
	s := m.recent.get(key, func() (*promptSeries, bool) { return m.findPrompt(r, key) })
	s.app.add(budget.Tokens{Input: u.Input - c.Input, CachedInput: u.CachedInput - c.CachedInput, CacheWrite: u.CacheWrite - c.CacheWrite})
	s.context.add(c.Tokens)
	if c.Cost > 0 {
		s.cost.Add(float64(c.Cost) / float64(budget.Dollar))
	}
}

// findPrompt looks up the series of a key. Those of unconfigured names are not cached, as each use of
// such a name is counted.
func (m *promptMetrics) findPrompt(r *Report, k promptKey) (s *promptSeries, remember bool) {
	tenant, known := m.tenants.labelOf(r.Tenant, k.tenant)
	policy := m.policies.label(k.policy)
	of := func(part string) promptCounters {
		by := func(cache string) prometheus.Counter {
			return m.tokens.WithLabelValues(tenant, policy, k.model, part, cache)
		}
		return promptCounters{by("read"), by("write"), by("none")}
	}
	return &promptSeries{of("app"), of("context"), m.cost.WithLabelValues(tenant, policy, k.model)}, known && policy == k.policy
}

func (c *promptCounters) add(t budget.Tokens) {
	for _, of := range [...]struct {
		to     prometheus.Counter
		tokens int64
	}{{c.read, t.CachedInput}, {c.written, t.CacheWrite}, {c.none, t.Input - t.CachedInput - t.CacheWrite}} {
		if of.tokens > 0 {
			of.to.Add(float64(of.tokens))
		}
	}
}
