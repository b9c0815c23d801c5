package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/rewrite"
	"sidenote/rewrite/staged"
)

// defaultName is the name of the policy that exists without being configured.
const defaultName = config.Name("default")

// ChatUnder is config.WithSinglePolicy, except that a name of no policy may be that of a stages
// preset: then the policy default answers in these stages. It may change cfg.
func ChatUnder(cfg *config.Config, name config.Name) (*config.Config, error) {
	if _, ok := cfg.Policies[name]; ok {
		return config.WithSinglePolicy(cfg, name)
	}
	chain, ok := config.Preset(string(name))
	if !ok {
		if name == defaultName {
			return config.WithSinglePolicy(cfg, name)
		}
		names := append(config.Texts(slices.Collect(maps.Keys(cfg.Policies))), staged.Presets()...)
		slices.Sort(names)
		return nil, fmt.Errorf("neither a policy nor a preset is named %q; there are %s", name, strings.Join(slices.Compact(names), ", "))
	}
	p, ok := cfg.Policies[defaultName]
	if !ok {
		p = config.DefaultPolicy()
	}
	p.Mode, p.Stages.Chain = rewrite.Staged.String(), chain
	if cfg.Policies == nil {
		cfg.Policies = map[config.Name]config.Policy{}
	}
	cfg.Policies[name] = p
	return config.WithSinglePolicy(cfg, name)
}
