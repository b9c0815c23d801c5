package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"sidenote/cache/budget"
	"sidenote/proxy"
	"sidenote/proxy/route"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// resolve turns a checked configuration into the values that the proxy runs on. It reports no
// problems.
func (c *Config) resolve() {
	names, unknown := sortedKeys(c.Tenants), c.Identity.Unknown
	if len(names) == 0 {
		names, unknown = []Name{defaultName}, defaultName
	}
	c.tenants = map[Name]*tenant.Policy{}
	for _, name := range names {
		c.tenants[name] = c.resolveTenant(name)
	}
	c.unknown = c.tenants[unknown] // no tenant has the name refuse
}

func (c *Config) resolveTenant(name Name) *tenant.Policy {
	p := c.Policy(name)
	out := resolvePolicy(c, name, p)
	for _, o := range p.Overrides {
		over := tenant.Override{Policy: resolvePolicy(c, name, p.with(o))}
		if o.Models != nil {
			over.Models = Texts(o.Models)
		}
		if o.Routes != nil {
			over.Routes = Texts(o.Routes)
		}
		seal(over.Policy)
		out.Overrides = append(out.Overrides, over)
	}
	seal(out)
	c.addExperiment(out, name, p, len(c.Tenants[name].Knowledge) > 0)
	return out
}

// resolvePolicy turns a tenant's policy, with or without an override, into what the proxy runs on,
// without hashes.
func resolvePolicy(c *Config, name Name, p Policy) *tenant.Policy {
	out := &tenant.Policy{
		Name: string(c.Tenants[name].policyName()), Tenant: string(name), Upstream: string(p.Upstream), Routes: Texts(p.Routes),
		Expose: p.Expose, MaxRewriteBytes: int(p.MaxRewriteBytes), RetryTooLong: p.OnFailure.ContextLength == "retry", CacheGuard: p.cacheGuard(), Rewrite: p.rewritePolicy(name), Citations: p.Annotations.Policy(),
		CacheDiagnostics: float64(p.CacheDiagnostics),
	}
	if p.Models != nil {
		out.Models = Texts(p.Models)
	}
	if p.Grounding == rewrite.GroundingStrict { // in an override; elsewhere it is refused
		p.Ladder = grounded(p.Ladder)
	}
	out.Budget = p.Terms(c.Budgets.BudgetLimits, PriceTable(c.Prices))
	out.Budget.Ladder = slices.DeleteFunc(out.Budget.Ladder, func(r budget.Rung) bool { // rungs without effect
		return r == budget.NoPlanner && out.Rewrite.Planner.MaxQueries == 0 || r == budget.NoStages && out.Rewrite.Mode != rewrite.Staged
	})
	out.Metered, out.OutputCap = out.Budget.Tokens(), int(p.MaxOutput)
	out.Rewrite.PromptCache = c.upstreams()[p.Upstream].promptCache()
	out.Rewrite.Rerank = p.Rerank.Settings(addressOf(c, p.Rerank.Upstream))
	out.Rewrite.Grade = p.Grade.Settings(addressOf(c, p.Grade.Upstream))
	out.Rewrite.Planner.Replan = p.Grade.Replans()
	out.Rewrite.Search.Synonyms = c.synonymsOf(p)
	out.Rewrite.Search.Thresholds = Thresholds(c.Knowledge, p.Knowledge)
	if out.Rewrite.Mode >= rewrite.Tools {
		out.Tools = p.Tools.Policy(ToolBases(c.Knowledge, p.Knowledge))
	}
	if out.Rewrite.Mode == rewrite.Staged {
		out.Stages = p.Stages.Policy(p.Template.TagNames())
		out.Stages.RefuseOnFailure = p.OnFailure.Stage == "refuse"
	}
	return out
}

// seal sets the hashes of a policy's content.
func seal(p *tenant.Policy) {
	content, err := json.Marshal(p)
	if err != nil {
		panic("BUG: policy cannot be hashed: " + err.Error())
	}
	sum := sha256.Sum256(content)
	p.Hash, p.Rewrite.Digest = hex.EncodeToString(sum[:4]), hex.EncodeToString(sum[:])
}

// shortHash returns a hash of text in the form of a policy's.
func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// Policy returns the complete policy of a tenant, as it would be written in a file.
func (c *Config) Policy(tenant Name) Policy {
	t := c.Tenants[tenant]
	p := c.policy(t.policyName())
	p.Extends = ""
	p.Upstream = c.upstreamOf(t.policyName())
	switch {
	case len(t.Knowledge) > 0:
		p.Knowledge = t.Knowledge
	case len(p.Knowledge) == 0 && len(c.Tenants) == 0:
		p.Knowledge = sortedKeys(c.Knowledge)
	}
	p.Filters = slices.Concat(p.Filters, t.Filters)
	p.Models, p.Limits = bothPatterns(p.Models, t.Models), BothLimits(p.Limits, t.Limits)
	p.OnEmpty = p.rewritePolicy(tenant).Empty()
	p.Overrides = slices.Clone(p.Overrides)
	for i := range p.Overrides {
		o := &p.Overrides[i]
		o.OnEmpty, o.of = p.with(*o).rewritePolicy(tenant).Empty(), &p.Treatment
	}
	if len(p.Routes) == 0 && (p.Models != nil || p.Limits != (Limits{}) || c.upstreams()[p.Upstream].APIKey != (Secret{})) {
		for _, r := range route.Defaults() {
			p.Routes = append(p.Routes, Route(r))
		}
	}
	return p
}

// TenantNames lists the tenants by name; without configured tenants there is one, "default".
func (c *Config) TenantNames() []Name { return sortedKeys(c.tenants) }

// Tenant returns the policy that the proxy applies to a tenant's requests.
func (c *Config) Tenant(name Name) (tenant.Policy, bool) {
	p, ok := c.tenants[name]
	if !ok {
		return tenant.Policy{}, false
	}
	return *p, true
}

// WorstRetrieval returns the longest time that any tenant's request waits for sources: planning,
// Redis, search, reranking and grading, the last three twice if the policy may search again.
func (c *Config) WorstRetrieval() time.Duration {
	var worst, shared time.Duration
	if c.Redis.Used() {
		shared = c.Redis.Timeout
	}
	for _, tenant := range c.tenants {
		for p := range tenant.All {
			round := p.Rewrite.Search.Deadline + p.Rewrite.Rerank.Timeout + p.Rewrite.Grade.Timeout
			if p.Rewrite.Planner.Replan {
				round *= 2
			}
			worst = max(worst, p.Rewrite.Planner.Timeout+shared+round)
		}
	}
	return worst
}

// Proxy returns the configuration of the data ports.
func (c *Config) Proxy() proxy.Config {
	out := proxy.Config{
		Tenants:     tenant.Tenants{Unknown: c.unknown, Origins: Texts(c.Identity.Origins), Hosts: Texts(c.Identity.Hosts)},
		Concurrency: int(c.Concurrency),
		Connections: int(c.Connections),
		Timeouts:    proxy.DefaultTimeouts(),
	}
	addCallers(c, &out.Tenants)
	out.Timeouts.Connect, out.Timeouts.FirstByte = c.Timeouts.Connect, c.Timeouts.FirstByte
	out.Timeouts.Idle, out.Timeouts.ClientWrite = c.Timeouts.Idle, c.Timeouts.ClientWrite
	out.Upstreams = ProxyUpstreams(c)
	for _, name := range c.TenantNames() {
		for _, k := range c.Tenants[name].Keys {
			out.Tenants.Keys = append(out.Tenants.Keys, tenant.Key{
				SHA256: k.SHA256, Name: string(k.Name), NotBefore: k.NotBefore.Time, Expires: k.Expires.End(), Policy: c.tenants[name],
			})
		}
	}
	return out
}

// ProxyUpstreams returns the Upstreams of Proxy, without the work for each tenant.
func ProxyUpstreams(c *Config) map[string]proxy.Upstream {
	out := map[string]proxy.Upstream{}
	for name, u := range c.upstreams() {
		out[string(name)] = proxy.Upstream{Name: string(name), BaseURL: u.BaseURL.URL, APIKey: u.APIKey.Value, KeyHeader: u.keyHeader(), Dial: u.Dial, Others: u.Others, NoUsageOption: u.IncludeUsage == "off",
			Timeouts: proxy.Timeouts{Connect: u.Timeouts.Connect, FirstByte: u.Timeouts.FirstByte, Idle: u.Timeouts.Idle}}
	}
	return out
}

// UpstreamNames lists the upstreams by name.
func (c *Config) UpstreamNames() []Name { return sortedKeys(c.upstreams()) }

// KnowledgeNames lists the bases by name.
func (c *Config) KnowledgeNames() []Name { return sortedKeys(c.Knowledge) }

// Limited reports whether some tenant has limits.
func Limited(c *Config) bool {
	for _, p := range c.tenants {
		if p.Budget.Limited() {
			return true
		}
	}
	return false
}

// addressOf returns the base URL of an upstream, or "" if it does not exist.
func addressOf(c *Config, upstream Name) string {
	if u, ok := c.upstreams()[upstream]; ok && u.BaseURL.URL != nil {
		return u.BaseURL.String()
	}
	return ""
}
