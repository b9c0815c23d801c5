package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
)

type checkCmd struct {
	configFlags
	Tenant  string `xor:"what" placeholder:"NAME" help:"Print this tenant's whole policy and where each value comes from."`
	Diff    string `xor:"what" placeholder:"OLD" help:"Show which tenants the change from this file to --config affects, and how."`
	Schema  bool   `xor:"what" help:"Print the JSON Schema of configurations, for editors."`
	Offline bool   `help:"Check without secrets and folders, for reviews and CI."`
	JSON    bool   `name:"json" help:"Print JSON, with problems and warnings."`
}

// Help shows how check is used.
func (checkCmd) Help() string {
	return "Reports every problem with file, line and column.\n\n" +
		"sidenote check --config sidenote.yaml\n\nsidenote check --config sidenote.yaml --tenant support\n\n" +
		"sidenote check --config sidenote.yaml --offline --json\n\nsidenote check --config sidenote.yaml --diff old/sidenote.yaml"
}

// Run checks a configuration and prints a summary.
func (c *checkCmd) Run(a *app) error {
	if c.Schema {
		doc, err := config.JSONSchema()
		if err == nil {
			_, err = a.stdout.Write(doc)
		}
		return err
	}
	cfg, err := c.checked(a)
	var changes *config.Changes
	if err == nil && c.Diff != "" {
		changes, err = c.changes(a, cfg)
	}
	if _, wrong := errors.AsType[strictyaml.Problems](err); err != nil && !(wrong && c.JSON) {
		return err
	}
	var warnings strictyaml.Problems
	if err == nil {
		warnings = c.warnings(a, cfg)
	}
	if c.JSON {
		report := newCheckReport(cfg, err, warnings)
		report.Changes = changes
		if err == nil && c.Tenant != "" {
			report.Policy = config.PolicyOrigins(cfg, config.Name(c.Tenant))
		}
		if printErr := printJSON(a.stdout, report); printErr != nil {
			return printErr
		}
		return err
	}
	switch {
	case c.Tenant != "":
		printTenant(a.stdout, cfg, config.Name(c.Tenant))
	case changes != nil:
		fmt.Fprint(a.stdout, changes)
	default:
		printSummary(a.stdout, cfg)
	}
	for _, w := range warnings {
		fmt.Fprintln(a.stderr, "warning: "+w.String())
	}
	return nil
}

// checked returns the configuration, or a config.Problems listing what is wrong with it or with
// the folders of its bases.
func (c *checkCmd) checked(a *app) (*config.Config, error) {
	src := c.source(a)
	src.NoSecrets = c.Offline
	cfg, err := config.Load(src)
	if err != nil {
		return nil, err
	}
	if !c.Offline {
		if err := cfg.CheckFolders(nil); err != nil {
			return nil, err
		}
	}
	if err := checkEngineFilters(cfg); err != nil {
		return nil, err
	}
	if name := config.Name(c.Tenant); name != "" {
		if _, ok := cfg.Tenant(name); !ok {
			return nil, usageError{fmt.Errorf("--tenant: no tenant is named %q; there are %s", name, someOf(config.Texts(cfg.TenantNames())))}
		}
	}
	return cfg, nil
}

// changes compares the configuration with that of --diff. Relative paths of the old file are
// resolved as if it stood in the new file's folder.
func (c *checkCmd) changes(a *app, cfg *config.Config) (*config.Changes, error) {
	src := c.source(a)
	src.NoSecrets, src.Path = c.Offline, c.Diff
	old, err := config.Load(src)
	if err != nil {
		return nil, err
	}
	from, to := filepath.Dir(c.Diff), filepath.Dir(c.Config)
	old.MovePaths(func(path string) string { return moved(path, from, to) })
	changes := config.CompareConfigs(old, cfg)
	return &changes, nil
}

// moved maps a path below one folder to the same path below another.
func moved(path, from, to string) string {
	if rel, err := filepath.Rel(from, path); err == nil && path != "" && path != config.StateMemory && filepath.IsLocal(rel) {
		return filepath.Join(to, rel)
	}
	return path
}

// warnings lists what is likely, but not certainly, a mistake.
func (c *checkCmd) warnings(a *app, cfg *config.Config) strictyaml.Problems {
	if c.Tenant != "" {
		return nil
	}
	list := cfg.Expired(time.Now())
	list = append(list, cfg.ShortTokens()...)
	list = append(list, partialFailureWarnings(cfg)...)
	list = append(list, embeddingWarnings(cfg)...)
	list = append(list, cfg.PlainEngines()...)
	list = append(list, unusedClaims(cfg)...)
	list = append(list, unusedPrices(cfg)...)
	list = append(list, unpricedHelpers(cfg)...)
	list = append(list, helperWarnings(cfg)...)
	list = append(list, toolWarnings(cfg)...)
	list = append(list, stageWarnings(cfg)...)
	if c.Offline {
		return list
	}
	return append(list, unknownAttributes(a.ctx, cfg)...)
}
