package config

import (
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/rerank"
)

// What becomes of a search whose sources are ambiguous.
const (
	ambiguousKeep   = "keep"
	ambiguousReplan = "replan" // the planner is asked then, and its queries are searched, too
)

// The thresholds of a chat model, whose scores are from 0 to 1.
const (
	modelRelevant   = 0.7
	modelIrrelevant = 0.3
)

// Grade says how relevant what was found must be.
type Grade struct {
	By         string        `yaml:"by" of:"off|rerank|llm"`     // whose scores grade: those of rerank, or of a model of its own
	Upstream   Name          `yaml:"upstream,omitempty"`         // of llm: that has the model
	Model      Model         `yaml:"model,omitempty"`            // of llm: that gives the scores
	Relevant   Threshold     `yaml:"relevant"`                   // least score of what is relevant
	Irrelevant Threshold     `yaml:"irrelevant"`                 // what is lower is irrelevant
	Ambiguous  string        `yaml:"ambiguous" of:"keep|replan"` // what is done where nothing is relevant, and not all irrelevant
	Timeout    time.Duration `yaml:"timeout" min:"1ms" max:"5s"` // of llm: of the scores, after the search and rerank
}

// defaultGrade is off.
func defaultGrade() Grade {
	return Grade{By: Off, Relevant: retrieval.AutoThreshold, Irrelevant: retrieval.AutoThreshold, Ambiguous: ambiguousKeep, Timeout: 2 * time.Second}
}

// replans tells whether the planner waits for a verdict.
func (g Grade) replans() bool { return g.By != Off && g.Ambiguous == ambiguousReplan }

// thresholds are those written, or a chat model's.
func (g Grade) thresholds() (relevant, irrelevant float64) {
	relevant, irrelevant = float64(g.Relevant), float64(g.Irrelevant)
	if relevant == retrieval.AutoThreshold {
		relevant = modelRelevant
	}
	if irrelevant == retrieval.AutoThreshold {
		irrelevant = modelIrrelevant
	}
	return relevant, irrelevant
}

// gradeSettings are what package retrieval reads.
func gradeSettings(c *Config, g Grade) retrieval.GradeSettings {
	if g.By == Off {
		return retrieval.GradeSettings{}
	}
	s := retrieval.GradeSettings{By: retrieval.GradeBy(g.By)}
	s.Relevant, s.Irrelevant = g.thresholds()
	if s.By == retrieval.GradeByModel {
		s.Upstream, s.Model, s.Timeout = string(g.Upstream), string(g.Model), g.Timeout
		s.Address = c.upstreams()[g.Upstream].BaseURL.String()
	}
	return s
}

// checkGrade refuses what cannot grade.
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
	if relevant, irrelevant := g.thresholds(); irrelevant > relevant {
		c.problem(key+".irrelevant", "%g is more than relevant, %g", irrelevant, relevant)
	}
	if g.replans() && t.Planner.Model == Off {
		c.problem(key+".ambiguous", "replan takes a planner; name its model")
	}
}

// checkGradeByRerank asks for what the scores of a reranker are compared with: each model has its
// own scale.
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
	if t.Rerank.Dialect == rerank.LLM {
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

// GradeUpstreams are the upstreams that graders ask.
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

// Replanning tells whether some tenant's policy may search twice.
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
