package config

import (
	"time"

	"sidenote/proxy/planning"
	"sidenote/retrieval"
	"sidenote/retrieval/rerank"
)

// Rerank is the service that orders what was found.
type Rerank struct {
	Upstream       Name           `yaml:"upstream"`                          // Off, or a name
	Dialect        rerank.Dialect `yaml:"dialect" of:"cohere|tei|llm"`       // that it speaks
	Model          Model          `yaml:"model,omitempty"`                   // absent: the only one that it has
	NumCandidates  Count          `yaml:"num_candidates" min:"1" max:"1000"` // whose texts it gets
	ScoreThreshold Threshold      `yaml:"score_threshold"`                   // of its scores, in place of those of bases
	Timeout        time.Duration  `yaml:"timeout" min:"1ms" max:"5s"`        // of the scores, after the search
}

// defaultRerank is off.
func defaultRerank() Rerank {
	return Rerank{Upstream: Off, Dialect: rerank.Cohere, NumCandidates: 50, ScoreThreshold: retrieval.AutoThreshold, Timeout: 2 * time.Second}
}

// rerankSettings are what package retrieval reads.
func rerankSettings(c *Config, r Rerank) retrieval.RerankSettings {
	if r.Upstream == Off {
		return retrieval.RerankSettings{}
	}
	s := retrieval.RerankSettings{
		Upstream: string(r.Upstream), Address: c.upstreams()[r.Upstream].BaseURL.String(), Model: string(r.Model),
		Dialect: string(r.Dialect), Documents: int(r.NumCandidates), Timeout: r.Timeout,
	}
	if r.ScoreThreshold != retrieval.AutoThreshold {
		s.Threshold = float64(r.ScoreThreshold)
	}
	return s
}

// checkRerank refuses a reranker that cannot be asked.
func checkRerank(c checker, key string, r Rerank) {
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
	if r.Upstream != Off && r.Model == "" && r.Dialect != rerank.TEI {
		c.problem(key+".model", "is missing; name the model of upstream %q that reranks", r.Upstream)
	}
	if r.Dialect == rerank.LLM && r.NumCandidates > rerank.MaxScored {
		c.problem(key+".num_candidates", "%d is more than a chat model is asked to score, %d", r.NumCandidates, rerank.MaxScored)
	}
}

// RerankServices are the upstreams that rerankers ask.
func RerankServices(c *Config) map[planning.Service]bool {
	asked := map[planning.Service]bool{}
	for _, tenant := range c.tenants {
		for p := range tenant.All {
			if s := p.Rewrite.Rerank; s.Documents > 0 {
				asked[planning.Service{Upstream: s.Upstream, Dialect: rerank.Dialect(s.Dialect)}] = true
			}
		}
	}
	return asked
}
