package config

import (
	"sidenote/proxy"
	"sidenote/retrieval/services"
)

// checkRerank refuses a reranker that cannot be called.
func checkRerank(c checker, key string, r rerank) {
	_, written := c.places[key]
	_, named := c.places[key+".upstream"]
	switch {
	case r.Upstream == Off && written && !named:
		c.problem(key+".upstream", "is missing; name the upstream that reranks")
	case r.Upstream == Off:
		return
	default:
		known(c.Config, key+".upstream", "upstream", r.Upstream, c.upstreams())
	}
	if r.Upstream != Off && r.Model == "" && r.Dialect != services.RerankTEI {
		c.problem(key+".model", "is missing; name the model of upstream %q that reranks", r.Upstream)
	}
	if r.Dialect == services.RerankLLM && r.NumCandidates > services.MaxScored {
		c.problem(key+".num_candidates", "%d is more than a chat model is asked to score, %d", r.NumCandidates, services.MaxScored)
	}
}

// RerankServices returns the upstreams that rerankers call.
func RerankServices(c *Config) map[proxy.RerankService]bool {
	asked := map[proxy.RerankService]bool{}
	for _, tenant := range c.tenants {
		for p := range tenant.All {
			if s := p.Rewrite.Rerank; s.Documents > 0 {
				asked[proxy.RerankService{Upstream: s.Upstream, Dialect: services.RerankDialect(s.Dialect)}] = true
			}
		}
	}
	return asked
}
