package server

import (
	"maps"
	"slices"

	"sidenote/cmd/sidenote/internal/config"
)

// stageNames lists the distinct names of all tenants' stages.
func stageNames(cfg *config.Config) []string {
	names := map[string]bool{}
	for _, tenant := range cfg.TenantNames() {
		whole, _ := cfg.Tenant(tenant)
		for p := range whole.All {
			for _, s := range p.Stages.Stages {
				names[s.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
