package server

import (
	"sidenote/proxy"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
)

// outputsOf returns the cache of stage outputs if a tenant's policy enables it, else nil.
func outputsOf(e *Engine, of tenant.Tenants) proxy.StageOutputs {
	for _, p := range tenant.NewDirectory(of).Policies() {
		for treatment := range p.All {
			if treatment.Stages.Cache > 0 {
				return e.Outputs()
			}
		}
	}
	return nil
}

// givenOf returns the store of sources that are repeated, nil if no policy repeats any.
func givenOf(e *Engine, of tenant.Tenants) proxy.GivenSources {
	for _, p := range tenant.NewDirectory(of).Policies() {
		for treatment := range p.All {
			if treatment.Rewrite.Repeat == rewrite.RepeatKeep {
				return e.Given()
			}
		}
	}
	return nil
}
