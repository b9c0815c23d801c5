package server

import (
	"sidenote/proxy"
	"sidenote/proxy/stages"
)

// outputsOf remembers what stages say for tenants, where some of them want that; else it is nil.
func outputsOf(e *Engine, of proxy.Tenants) stages.Outputs {
	for _, p := range proxy.NewDirectory(of).Policies() {
		for treatment := range p.All {
			if treatment.Stages.Cache > 0 {
				return e.Outputs()
			}
		}
	}
	return nil
}
