package config

import (
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/services"
)

// What happens if the sources found are ambiguous.
const (
	ambiguousKeep   = "keep"
	ambiguousReplan = "replan" // the planner is called then, and its queries are searched too
)

// The default thresholds for a chat model, whose scores are from 0 to 1.
const (
	modelRelevant   = 0.7
	modelIrrelevant = 0.3
)

// grade configures how relevant sources must be.
type grade struct {
	By         string        `yaml:"by" of:"off|rerank|llm"`     // whose scores are used: the reranker's, or a chat model's
	Upstream   Name          `yaml:"upstream,omitempty"`         // for llm: the upstream of the model
	Model      model         `yaml:"model,omitempty"`            // for llm: the model that scores
	Relevant   threshold     `yaml:"relevant"`                   // minimum score of a relevant source
	Irrelevant threshold     `yaml:"irrelevant"`                 // lower scores are irrelevant
	Ambiguous  string        `yaml:"ambiguous" of:"keep|replan"` // what happens if nothing is relevant but not everything irrelevant
	Timeout    time.Duration `yaml:"timeout" min:"1ms" max:"5s"` // for llm: of scoring, after the search and rerank
}

// defaultGrade is off.
func defaultGrade() grade {
	return grade{By: Off, Relevant: retrieval.AutoThreshold, Irrelevant: retrieval.AutoThreshold, Ambiguous: ambiguousKeep, Timeout: 2 * time.Second}
}

// Replans reports whether an ambiguous grade leads to a call of the planner.
func (g grade) Replans() bool { return g.By != Off && g.Ambiguous == ambiguousReplan }

// Thresholds returns the configured thresholds, or a chat model's defaults.
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

// Settings converts the settings for package retrieval; address is that of the upstream.
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

// rerank configures the service that reorders candidates.
type rerank struct {
	Upstream       Name                   `yaml:"upstream"`                          // Off, or a name
	Dialect        services.RerankDialect `yaml:"dialect" of:"cohere|tei|llm"`       // protocol of the service
	Model          model                  `yaml:"model,omitempty"`                   // absent: its only model
	NumCandidates  Count                  `yaml:"num_candidates" min:"1" max:"1000"` // candidates sent to it
	ScoreThreshold threshold              `yaml:"score_threshold"`                   // on its scores, instead of the thresholds of bases
	Timeout        time.Duration          `yaml:"timeout" min:"1ms" max:"5s"`        // of reranking, after the search
}

// defaultRerank is off.
func defaultRerank() rerank {
	return rerank{Upstream: Off, Dialect: services.RerankCohere, NumCandidates: 50, ScoreThreshold: retrieval.AutoThreshold, Timeout: 2 * time.Second}
}

// Settings converts the settings for package retrieval; address is that of the upstream.
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
