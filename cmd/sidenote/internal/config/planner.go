package config

import (
	"time"

	"sidenote/retrieval"
)

// autoModel means the model, upstream and credential of the request itself.
const autoModel = "auto"

// Planner configures the model that plans additional search queries.
type Planner struct {
	Model      model         `yaml:"model"`                        // Off, autoModel, or a name
	Upstream   Name          `yaml:"upstream,omitempty"`           // of the model; absent: the request's own
	MaxQueries Count         `yaml:"max_queries" min:"1" max:"10"` // including the question
	Timeout    time.Duration `yaml:"timeout" min:"1ms" max:"10s"`  // of planning, before the search and its deadline
	Turns      Count         `yaml:"turns" min:"0" max:"8"`        // previous user turns that it sees
}

// defaultPlanner is off.
func defaultPlanner() Planner {
	return Planner{Model: Off, MaxQueries: 3, Timeout: 4 * time.Second, Turns: 3}
}

// settings converts the settings for package retrieval.
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

// checkPlanner refuses a planner without a model, or whose upstream cannot be determined.
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

// Planning reports whether some tenant's policy has a planner.
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

// CountUpstreams returns the upstreams that are asked for token counts.
func CountUpstreams(c *Config) map[string]bool {
	asked := map[string]bool{}
	for name, u := range c.upstreams() {
		if u.Calibrate == "count_tokens" {
			asked[string(name)] = true
		}
	}
	return asked
}

// PlannerUpstreams returns the upstreams that planners call.
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
