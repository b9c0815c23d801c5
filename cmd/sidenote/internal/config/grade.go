package config

import (
	"sidenote/retrieval"
	"sidenote/retrieval/services"
)

// checkGrade refuses settings with which grading is not possible.
func checkGrade(c checker, policy string, t Treatment) {
	g, key := t.Grade, policy+".grade"
	_, written := c.places[key]
	_, named := c.places[key+".by"]
	switch {
	case g.By == Off && written && !named:
		c.problem(key+".by", "is missing; say rerank for the scores of the policy's reranker, or llm for those of a chat model")
	case g.By == Off:
		return
	case g.By == string(retrieval.GradeByRerank):
		checkGradeByRerank(c, policy, t)
	case g.Upstream == "":
		c.problem(key+".upstream", "is missing; name the upstream whose model grades")
	case known(c.Config, key+".upstream", "upstream", g.Upstream, c.upstreams()) && g.Model == "":
		c.problem(key+".model", "is missing; name the model of upstream %q that grades", g.Upstream)
	}
	if relevant, irrelevant := g.Thresholds(); irrelevant > relevant {
		c.problem(key+".irrelevant", "%g is more than relevant, %g", irrelevant, relevant)
	}
	if g.Replans() && t.Planner.Model == Off {
		c.problem(key+".ambiguous", "replan takes a planner; name its model")
	}
}

// checkGradeByRerank requires thresholds for a reranker's scores, as each model has its own scale.
func checkGradeByRerank(c checker, policy string, t Treatment) {
	key := policy + ".grade"
	if t.Rerank.Upstream == Off {
		c.problem(key+".by", "the policy does not rerank; name the upstream that reranks as rerank.upstream, or say llm")
		return
	}
	for _, of := range []string{".upstream", ".model", ".timeout"} {
		if _, written := c.places[key+of]; written {
			c.problem(key+of, "is of by: llm only; the scores are those of rerank")
		}
	}
	if t.Rerank.Dialect == services.RerankLLM {
		return
	}
	const missing = "is missing; what reranks scores on a scale of its own, see rerank_score of a dry run"
	if t.Grade.Relevant == retrieval.AutoThreshold {
		c.problem(key+".relevant", missing)
	}
	if t.Grade.Irrelevant == retrieval.AutoThreshold {
		c.problem(key+".irrelevant", missing)
	}
}

// GradeUpstreams returns the upstreams that graders call.
func GradeUpstreams(c *Config) map[string]bool {
	asked := map[string]bool{}
	for _, tenant := range c.tenants {
		for p := range tenant.All {
			if s := p.Rewrite.Grade; s.By == retrieval.GradeByModel {
				asked[s.Upstream] = true
			}
		}
	}
	return asked
}

// Replanning reports whether some tenant's policy may search twice.
func Replanning(c *Config) bool {
	for _, tenant := range c.tenants {
		for p := range tenant.All {
			if p.Rewrite.Planner.Replan {
				return true
			}
		}
	}
	return false
}
