package config

import (
	"time"

	"sidenote/retrieval"
)

// autoModel is the model, upstream and credential of the request itself.
const autoModel = "auto"

// Planner is the model that says what is searched beside the question.
type Planner struct {
	Model      model         `yaml:"model"`                        // Off, autoModel, or a name
	Upstream   Name          `yaml:"upstream,omitempty"`           // that has the model; absent: the request's own
	MaxQueries Count         `yaml:"max_queries" min:"1" max:"10"` // searched at most, the question included
	Timeout    time.Duration `yaml:"timeout" min:"1ms" max:"10s"`  // of a plan, before the search and its deadline
	Turns      Count         `yaml:"turns" min:"0" max:"8"`        // what the user said before, that it sees
}

// defaultPlanner is off.
func defaultPlanner() Planner {
	return Planner{Model: Off, MaxQueries: 3, Timeout: 4 * time.Second, Turns: 3}
}

// settings are what package retrieval reads.
func (p Planner) settings() retrieval.PlanSettings {
	if p.Model == Off {
		return retrieval.PlanSettings{}
	}
	s := retrieval.PlanSettings{
		Upstream: string(p.Upstream), Model: string(p.Model),
		MaxQueries: int(p.MaxQueries), Turns: int(p.Turns), Timeout: p.Timeout,
	}
	if p.Model == autoModel {
		s.Model = ""
	}
	return s
}

// checkPlanner refuses a planner of which nobody can tell whom it asks.
func checkPlanner(c checker, key string, p Planner) {
	_, written := c.places[key]
	_, named := c.places[key+".model"]
	switch {
	case p.Model == Off && written && !named:
		c.problem(key+".model", "is missing; name the model that plans, or write auto for the one of the request")
	case p.Upstream == "":
	case p.Model == autoModel:
		c.problem(key+".model", "auto is the model of the request, which only its own upstream has; name a model of upstream %q", p.Upstream)
	default:
		known(c.Config, key+".upstream", "upstream", p.Upstream, c.upstreams())
	}
}

// Planning tells whether some tenant's policy has a planner.
func Planning(c *Config) bool {
	for _, tenant := range c.tenants {
		for p := range tenant.All {
			if p.Rewrite.Planner.MaxQueries > 0 {
				return true
			}
		}
	}
	return false
}

// PlannerUpstreams are the upstreams that planners ask.
func PlannerUpstreams(c *Config) map[string]bool {
	asked := map[string]bool{}
	for _, tenant := range c.tenants {
		for p := range tenant.All {
			if s := p.Rewrite.Planner; s.Upstream != "" {
				asked[s.Upstream] = true
			} else if s.MaxQueries > 0 {
				asked[p.Upstream] = true
			}
		}
	}
	return asked
}
