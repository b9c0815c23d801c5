package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval/engine"
	"sidenote/retrieval/filter"
)

type initCmd struct {
	ID     string `arg:"" help:"Name of the base in the configuration."`
	Config string `placeholder:"FILE" help:"Configuration, YAML."`
	Print  bool   `help:"Print the SQL or the requests for somebody who runs them; connect nowhere."`
	JSON   bool   `name:"json" help:"Print the answer as JSON."`
}

// Help shows how init is used.
func (initCmd) Help() string {
	return "Creates the tables or indexes of Sidenote in the engine of a base, or brings those of an earlier version up to date. " +
		"Nothing changes if they are. The user of the base needs the right to create them only for this command, " +
		"and to write them only where the base is ingested.\n\n" +
		"With --print secrets are not read, so it can be run anywhere.\n\n" +
		"sidenote knowledge init manuals --config sidenote.yaml\n\nsidenote knowledge init manuals --config sidenote.yaml --print | psql -v ON_ERROR_STOP=1 docs"
}

// An initReport is what `sidenote knowledge init --json` prints.
type initReport struct {
	Object string `json:"object"` // "knowledge.init"
	ID     string `json:"id"`
	Engine string `json:"engine"`
	Ready  bool   `json:"ready"`           // the schema is there and up to date
	Setup  string `json:"setup,omitempty"` // with --print: the SQL or the requests
}

// Run creates the schema of a base, or prints how.
func (c *initCmd) Run(a *app) error {
	src := configFlags{Config: c.Config}.source(a)
	src.Offline, src.NoSecrets = true, c.Print
	cfg, err := config.Load(src)
	if err != nil {
		return err
	}
	if err := c.check(cfg); err != nil {
		return usageError{err}
	}
	at, err := server.OpenEngine(cfg, config.Name(c.ID))
	if err != nil {
		return err
	}
	report := initReport{Object: "knowledge.init", ID: c.ID, Engine: cfg.Knowledge[config.Name(c.ID)].Engine}
	err = errors.Join(c.do(a, at, &report), at.Close())
	if err != nil {
		return fmt.Errorf("knowledge %s: %w", c.ID, err)
	}
	if c.JSON {
		return printJSON(a.stdout, report)
	}
	c.print(a.stdout, report, cfg.EngineText(config.Name(c.ID)))
	return nil
}

// check refuses a base without a schema of ours.
func (c *initCmd) check(cfg *config.Config) error {
	k, ok := cfg.Knowledge[config.Name(c.ID)]
	names := config.Texts(cfg.KnowledgeNames())
	switch {
	case !ok && len(names) == 0:
		return errors.New("there is no base; name the configuration by --config")
	case !ok:
		return fmt.Errorf("no base is named %q%s; there are %s", c.ID, strictyaml.DidYouMean(c.ID, names), someOf(names))
	case !k.Remote():
		return fmt.Errorf("base %s has engine %s, which needs no init; init is for bases in postgres or opensearch", c.ID, k.Engine)
	}
	if m, mapped := cfg.EngineMapping(config.Name(c.ID)); mapped {
		return fmt.Errorf("base %s is %s, which others write; nothing is created there", c.ID, m.Table)
	}
	return nil
}

// do creates the schema, or has the report say how.
func (c *initCmd) do(a *app, at engine.Server, report *initReport) (err error) {
	if c.Print {
		report.Setup, err = at.Setup(c.ID)
		return err
	}
	err = at.Init(a.ctx, c.ID)
	if errors.Is(err, engine.ErrDenied) {
		return fmt.Errorf("%w; `sidenote knowledge init %s --print` prints what somebody else may run", err, c.ID)
	}
	if err == nil {
		_, err = at.States(a.ctx, []string{c.ID}) // it also learns what the engine lacks
	}
	if err != nil {
		return err
	}
	report.Ready = true
	for _, line := range server.EngineTrouble(at) {
		fmt.Fprintf(a.stderr, "warning: knowledge %s: %s\n", c.ID, line)
	}
	return nil
}

// print prints the report for people. What --print prints can be piped.
func (c *initCmd) print(w io.Writer, report initReport, where string) {
	if c.Print {
		fmt.Fprintln(w, strings.TrimRight(report.Setup, "\n"))
		return
	}
	fmt.Fprintf(w, "%s: ready, %s\n", report.ID, where)
}

// checkEngineFilters returns a config.Problems naming the filters that the engine of a base cannot
// evaluate. It connects nowhere.
func checkEngineFilters(cfg *config.Config) error {
	open := map[string]engine.Server{} // by config.EngineKey
	defer func() {
		for _, at := range open {
			_ = at.Close() // it has no connection
		}
	}()
	return cfg.CheckFilters(func(base config.Name, f *filter.Filter) error {
		key := cfg.EngineKey(base)
		at, ok := open[key]
		if !ok {
			var err error
			if at, err = server.OpenEngine(cfg, base); err != nil {
				return err
			}
			open[key] = at
		}
		return at.Filterable(string(base), f)
	})
}
