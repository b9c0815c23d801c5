package review

import (
	"fmt"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/config/modelrows"
	"sidenote/proxy"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

// Tools warns of tools that no chat has, and of models that cannot call any.
func Tools(cfg *config.Config) config.Problems {
	return slices.Concat(idleTools(cfg), modelsWithoutFunctions(cfg))
}

// idleTools lists what policies say of tools that no chat of theirs has.
func idleTools(cfg *config.Config) (list config.Problems) {
	const reason = "has no effect: only chats under mode: tools have them"
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		inUse := p.Rewrite.Mode == rewrite.Tools
		for i, o := range p.Overrides {
			setting := fmt.Sprintf("overrides[%d].tools", i)
			if o.Policy.Rewrite.Mode == rewrite.Tools {
				inUse = true
			} else if _, _, written := config.Written(cfg, "policies."+p.Name+"."+setting); written {
				list = append(list, policyProblem(cfg, &p, setting, reason))
			}
		}
		for policy := config.Name(p.Name); policy != "" && !inUse; policy = cfg.Policies[policy].Extends {
			if _, _, written := config.Written(cfg, "policies."+string(policy)+".tools"); written {
				list = append(list, policyProblem(cfg, &p, "tools", reason))
				break
			}
		}
	}
	return once(list)
}

// modelsWithoutFunctions lists models of policies with tools that answer these with an error, as
// far as the model table knows.
func modelsWithoutFunctions(cfg *config.Config) (list config.Problems) {
	table := modelrows.Table(cfg.Models)
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		add := func(setting string, models proxy.Models, of *proxy.Policy) {
			for _, model := range models {
				if len(of.Tools.Offer) > 0 && !of.Tools.XML && refusesTools(table, model) {
					list = append(list, policyProblem(cfg, &p, setting, "%s cannot call functions, and its upstream answers tools with an error; tools: {protocol: xml} does without", model))
				}
			}
		}
		add("models", p.Models, &p)
		for i, o := range p.Overrides {
			add(fmt.Sprintf("overrides[%d].models", i), o.Models, o.Policy)
		}
	}
	return once(list)
}

// refusesTools tells whether all models of a pattern do.
func refusesTools(table []tokens.Model, pattern string) bool {
	name, many := strings.CutSuffix(pattern, "*")
	row, _ := tokens.Lookup(table, name)
	return row.NoFunctions && (!many || strings.HasSuffix(row.Match, "*"))
}
