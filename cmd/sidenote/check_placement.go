package main

import (
	"strings"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy/tenant"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

// automaticPlacement says what placement auto stands for under a policy, by how the upstream or the
// models cache prompts.
func automaticPlacement(cfg *config.Config, p *tenant.Policy) string {
	of := func(c tokens.PromptCache) string {
		text := string(rewrite.Automatic(c))
		if c.Marked() && p.Rewrite.CacheMarks != rewrite.MarksOff {
			text += " with cache marks"
		}
		return text
	}
	if c := p.Rewrite.PromptCache; c != tokens.CacheUnknown {
		return of(c)
	}
	rows := map[tokens.PromptCache][]string{}
	for _, row := range cfg.ModelTable() {
		rows[row.PromptCache] = append(rows[row.PromptCache], row.Match)
	}
	var parts []string
	if list := rows[tokens.CacheBreakpoints]; len(list) > 0 {
		parts = append(parts, of(tokens.CacheBreakpoints)+" for "+strings.Join(list, ", "))
	}
	if len(rows[tokens.CacheControl]) > 0 {
		parts = append(parts, of(tokens.CacheControl)+" for Claude in the Messages API")
	}
	if list := rows[tokens.CachePrefix]; len(list) > 0 {
		parts = append(parts, of(tokens.CachePrefix)+" for "+terminal.Plural(len(list), "other row")+" of the model table")
	}
	return strings.Join(append(parts, of(tokens.CacheUnknown)+" for others"), "; ")
}

// placementText describes a policy's placement, and what auto is or would be.
func placementText(cfg *config.Config, p *tenant.Policy) string {
	auto := automaticPlacement(cfg, p)
	if p.Rewrite.Placement == rewrite.PlaceAuto {
		if p.Rewrite.History != rewrite.HistoryInput {
			auto += "; instructions, behind which nothing is cached, for Responses that the upstream keeps (see history)"
		}
		return "auto: " + auto
	}
	return string(p.Rewrite.Placement) + "; auto would be " + auto
}
