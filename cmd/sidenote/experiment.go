package main

import (
	"net/http"

	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy/admin"
	"sidenote/proxy/experiment"
)

type experimentCmd struct {
	Name string `arg:"" optional:"" help:"One experiment, in detail (a list of all)."`
	adminFlags
}

// Help shows how experiment is used.
func (experimentCmd) Help() string {
	return "Asks a running Sidenote for the outcomes of its experiments. The intervals hold at whatever time you look.\n\n" +
		"sidenote experiment\n\nsidenote experiment longer-sources\n\nsidenote experiment longer-sources --json"
}

// Run prints all experiments or one.
func (c *experimentCmd) Run(a *app) error {
	at, err := c.client(a)
	if err != nil {
		return err
	}
	if c.Name != "" {
		var one experiment.View
		if err := at.Do(a.ctx, http.MethodGet, admin.ExperimentPath(c.Name), nil, &one); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, one)
		}
		screen.Experiment(a.stdout, &one)
		return nil
	}
	all, err := client.List[experiment.View](a.ctx, at, admin.ExperimentsPath)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, map[string]any{"object": "list", "data": all})
	}
	screen.Experiments(a.stdout, all)
	return nil
}
