package server

import (
	"sidenote/proxy"
	"sidenote/proxy/tenant"
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
