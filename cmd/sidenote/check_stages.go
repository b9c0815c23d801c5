package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// Stages warns of stages that no chat uses, and of sources that no stage reads.
func stageWarnings(cfg *config.Config) strictyaml.Problems {
	return slices.Concat(idleSettings(cfg, "stages", rewrite.Staged), unreadSources(cfg))
}

// unreadSources lists chains whose prompts leave out the sources.
func unreadSources(cfg *config.Config) (list strictyaml.Problems) {
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		add := func(setting string, of *tenant.Policy) {
			if c := of.Stages.Chain; c != nil && len(of.Rewrite.Knowledge) > 0 && !c.Uses(staged.PlaceContext) {
				list = append(list, policyProblem(cfg, &p, setting, "no stage reads {{%s}}, so that no model sees what is found", staged.PlaceContext))
			}
		}
		add("stages", &p)
		for i, o := range p.Overrides {
			add(fmt.Sprintf("overrides[%d].stages", i), o.Policy)
		}
	}
	return distinctProblems(list)
}

// stages prints the chain of a policy, with models and upstreams other than the policy's.
func printStages(w io.Writer, of *staged.Policy) {
	if len(of.Stages) == 0 {
		return
	}
	var names []string
	for _, s := range of.Stages {
		name := s.Name
		if s.Model != "" {
			name += " by " + s.Model
		}
		if s.Upstream != "" {
			name += " on " + s.Upstream
		}
		names = append(names, name)
	}
	fmt.Fprintf(w, "           answered in stages: %s; %s each at most, %s in all\n", strings.Join(names, ", then "), of.StageTimeout, of.Timeout)
}
