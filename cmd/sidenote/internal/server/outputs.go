package server

import (
	"sidenote/proxy"
	"sidenote/proxy/tenant"
)

// outputsOf remembers what stages say for tenants, where some of them want that; else it is nil.
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
