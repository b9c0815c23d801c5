package main

import (
	"fmt"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

// Tools warns of tools that no chat uses, and of models that cannot call any.
func toolWarnings(cfg *config.Config) strictyaml.Problems {
	return slices.Concat(idleSettings(cfg, "tools", rewrite.Tools), modelsWithoutFunctions(cfg))
}

// idle lists the settings under a key of policies that never use the mode which needs it.
func idleSettings(cfg *config.Config, key string, mode rewrite.Mode) (list strictyaml.Problems) {
	reason := "has no effect: only chats under mode: " + mode.String() + " have them"
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		inUse := p.Rewrite.Mode >= mode
		for i, o := range p.Overrides {
			setting := fmt.Sprintf("overrides[%d].%s", i, key)
			if o.Policy.Rewrite.Mode >= mode {
				inUse = true
			} else if _, _, written := config.Written(cfg, "policies."+p.Name+"."+setting); written {
				list = append(list, policyProblem(cfg, &p, setting, "%s", reason))
			}
		}
		for policy := config.Name(p.Name); policy != "" && !inUse; policy = cfg.Policies[policy].Extends {
			if _, _, written := config.Written(cfg, "policies."+string(policy)+"."+key); written {
				list = append(list, policyProblem(cfg, &p, key, "%s", reason))
				break
			}
		}
	}
	return distinctProblems(list)
}

// modelsWithoutFunctions lists models, in policies with tools, that are not offered tools because
// the model table says that they reject them.
func modelsWithoutFunctions(cfg *config.Config) (list strictyaml.Problems) {
	table := cfg.ModelTable()
	for _, name := range cfg.TenantNames() {
		p, _ := cfg.Tenant(name)
		add := func(setting string, models tenant.Models, of *tenant.Policy) {
			for _, model := range models {
				if of.Rewrite.Mode == rewrite.Tools && !of.Tools.XML && refusesTools(table, model) {
					list = append(list, policyProblem(cfg, &p, setting, "%s takes no functions and is not offered tools: sources are injected instead; tools: {protocol: xml} offers them in text", model))
				}
			}
		}
		add("models", p.Models, &p)
		for i, o := range p.Overrides {
			add(fmt.Sprintf("overrides[%d].models", i), o.Models, o.Policy)
		}
	}
	return distinctProblems(list)
}

// refusesTools reports whether all models of a pattern reject tools.
func refusesTools(table []tokens.Model, pattern string) bool {
	name, many := strings.CutSuffix(pattern, "*")
	row, _ := tokens.Lookup(table, name)
	return row.Tools.For("") == tokens.ToolNone && (!many || strings.HasSuffix(row.Match, "*"))
}
