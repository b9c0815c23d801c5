package config

import (
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/services"
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

// grade says how relevant what was found must be.
type grade struct {
	By         string        `yaml:"by" of:"off|rerank|llm"`     // whose scores grade: those of rerank, or of a model of its own
	Upstream   Name          `yaml:"upstream,omitempty"`         // of llm: that has the model
	Model      model         `yaml:"model,omitempty"`            // of llm: that gives the scores
	Relevant   threshold     `yaml:"relevant"`                   // least score of what is relevant
	Irrelevant threshold     `yaml:"irrelevant"`                 // what is lower is irrelevant
	Ambiguous  string        `yaml:"ambiguous" of:"keep|replan"` // what is done where nothing is relevant, and not all irrelevant
	Timeout    time.Duration `yaml:"timeout" min:"1ms" max:"5s"` // of llm: of the scores, after the search and rerank
}

// defaultGrade is off.
func defaultGrade() grade {
	return grade{By: Off, Relevant: retrieval.AutoThreshold, Irrelevant: retrieval.AutoThreshold, Ambiguous: ambiguousKeep, Timeout: 2 * time.Second}
}

// Replans tells whether the planner waits for a verdict.
func (g grade) Replans() bool { return g.By != Off && g.Ambiguous == ambiguousReplan }

// Thresholds are those written, or a chat model's.
func (g grade) Thresholds() (relevant, irrelevant float64) {
	relevant, irrelevant = float64(g.Relevant), float64(g.Irrelevant)
	if relevant == retrieval.AutoThreshold {
		relevant = modelRelevant
	}
	if irrelevant == retrieval.AutoThreshold {
		irrelevant = modelIrrelevant
	}
	return relevant, irrelevant
}

// Settings are what package retrieval reads; address is that of the upstream.
func (g grade) Settings(address string) retrieval.GradeSettings {
	if g.By == Off {
		return retrieval.GradeSettings{}
	}
	s := retrieval.GradeSettings{By: retrieval.GradeBy(g.By)}
	s.Relevant, s.Irrelevant = g.Thresholds()
	if s.By == retrieval.GradeByModel {
		s.Upstream, s.Model, s.Timeout = string(g.Upstream), string(g.Model), g.Timeout
		s.Address = address
	}
	return s
}

// rerank is the service that orders what was found.
type rerank struct {
	Upstream       Name                   `yaml:"upstream"`                          // Off, or a name
	Dialect        services.RerankDialect `yaml:"dialect" of:"cohere|tei|llm"`       // that it speaks
	Model          model                  `yaml:"model,omitempty"`                   // absent: the only one that it has
	NumCandidates  Count                  `yaml:"num_candidates" min:"1" max:"1000"` // whose texts it gets
	ScoreThreshold threshold              `yaml:"score_threshold"`                   // of its scores, in place of those of bases
	Timeout        time.Duration          `yaml:"timeout" min:"1ms" max:"5s"`        // of the scores, after the search
}

// defaultRerank is off.
func defaultRerank() rerank {
	return rerank{Upstream: Off, Dialect: services.RerankCohere, NumCandidates: 50, ScoreThreshold: retrieval.AutoThreshold, Timeout: 2 * time.Second}
}

// Settings are what package retrieval reads; address is that of the upstream.
func (r rerank) Settings(address string) retrieval.RerankSettings {
	if r.Upstream == Off {
		return retrieval.RerankSettings{}
	}
	s := retrieval.RerankSettings{
		Upstream: string(r.Upstream), Address: address, Model: string(r.Model),
		Dialect: string(r.Dialect), Documents: int(r.NumCandidates), Timeout: r.Timeout,
	}
	if r.ScoreThreshold != retrieval.AutoThreshold {
		s.Threshold = float64(r.ScoreThreshold)
	}
	return s
}
