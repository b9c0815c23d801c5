// Package helpers reads what policies say of the services that order and grade what was found.
package helpers

import (
	"time"

	"sidenote/cmd/sidenote/internal/config/port"
	"sidenote/cmd/sidenote/internal/config/value"
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

// Grade says how relevant what was found must be.
type Grade struct {
	By         string          `yaml:"by" of:"off|rerank|llm"`     // whose scores grade: those of rerank, or of a model of its own
	Upstream   value.Name      `yaml:"upstream,omitempty"`         // of llm: that has the model
	Model      value.Model     `yaml:"model,omitempty"`            // of llm: that gives the scores
	Relevant   value.Threshold `yaml:"relevant"`                   // least score of what is relevant
	Irrelevant value.Threshold `yaml:"irrelevant"`                 // what is lower is irrelevant
	Ambiguous  string          `yaml:"ambiguous" of:"keep|replan"` // what is done where nothing is relevant, and not all irrelevant
	Timeout    time.Duration   `yaml:"timeout" min:"1ms" max:"5s"` // of llm: of the scores, after the search and rerank
}

// DefaultGrade is off.
func DefaultGrade() Grade {
	return Grade{By: port.Off, Relevant: retrieval.AutoThreshold, Irrelevant: retrieval.AutoThreshold, Ambiguous: ambiguousKeep, Timeout: 2 * time.Second}
}

// Replans tells whether the planner waits for a verdict.
func (g Grade) Replans() bool { return g.By != port.Off && g.Ambiguous == ambiguousReplan }

// Thresholds are those written, or a chat model's.
func (g Grade) Thresholds() (relevant, irrelevant float64) {
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
func (g Grade) Settings(address string) retrieval.GradeSettings {
	if g.By == port.Off {
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

// Rerank is the service that orders what was found.
type Rerank struct {
	Upstream       value.Name             `yaml:"upstream"`                          // port.Off, or a name
	Dialect        services.RerankDialect `yaml:"dialect" of:"cohere|tei|llm"`       // that it speaks
	Model          value.Model            `yaml:"model,omitempty"`                   // absent: the only one that it has
	NumCandidates  value.Count            `yaml:"num_candidates" min:"1" max:"1000"` // whose texts it gets
	ScoreThreshold value.Threshold        `yaml:"score_threshold"`                   // of its scores, in place of those of bases
	Timeout        time.Duration          `yaml:"timeout" min:"1ms" max:"5s"`        // of the scores, after the search
}

// DefaultRerank is off.
func DefaultRerank() Rerank {
	return Rerank{Upstream: port.Off, Dialect: services.RerankCohere, NumCandidates: 50, ScoreThreshold: retrieval.AutoThreshold, Timeout: 2 * time.Second}
}

// Settings are what package retrieval reads; address is that of the upstream.
func (r Rerank) Settings(address string) retrieval.RerankSettings {
	if r.Upstream == port.Off {
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
