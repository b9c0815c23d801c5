package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/oklog/ulid/v2"

	"sidenote/cmd/sidenote/internal/adminclient"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
	"sidenote/retrieval/knowledge/store"
)

type explainCmd struct {
	ID string `arg:"" help:"Of the request, as in the header Sidenote-Id of its answer."`
	runningFlags
	JSON bool `name:"json" help:"Print everything as JSON."`
}

// runningFlags choose the running Sidenote that a command asks.
type runningFlags struct {
	Config         string `placeholder:"FILE" help:"Configuration, YAML."`
	Admin          string `placeholder:"HOST:PORT" help:"Admin port to ask (that of the process that writes the state folder, or else the configuration's)."`
	State          string `placeholder:"DIR" help:"State folder of that process ($XDG_STATE_HOME/sidenote)."`
	AdminTokenFile string `placeholder:"FILE" help:"Token of the admin port ($SIDENOTE_ADMIN_TOKEN)."`
}

// Help shows how explain is used.
func (explainCmd) Help() string {
	return "Asks a running Sidenote, which keeps the last 1,000 requests (explain.keep), and what was in them if explain.bodies says so.\n\n" +
		"sidenote explain 01M7Y9S0G540QS2PPDJ5EB1HAP"
}

// Run shows what is known of one request.
func (c *explainCmd) Run(a *app) error {
	if _, err := ulid.ParseStrict(c.ID); err != nil {
		return usageError{fmt.Errorf("%q is no id of a request, which the header Sidenote-Id of its answer has", c.ID)}
	}
	at, err := c.client(a)
	if err != nil {
		return err
	}
	var e explain.Explanation
	if err := at.Do(a.ctx, http.MethodGet, admin.ExplainPath+c.ID, nil, &e); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, e)
	}
	screen.Explanation(a.stdout, &e)
	return nil
}

// client returns a client of the admin port that --admin names, or else of the process that
// writes the state folder, or else of the port of the configuration. That last one may be
// another program's by now and proves nothing, so no token is sent to it.
func (c *runningFlags) client(a *app) (*adminclient.Client, error) {
	cfg, err := configFlags{Config: c.Config, Flags: config.Flags{Admin: c.Admin, State: c.State, AdminTokenFile: c.AdminTokenFile}}.load(a, true)
	if err != nil {
		return nil, err
	}
	token := cfg.Admin.Token.Value.Reveal()
	who := store.Writer(cfg.State.Path)
	switch {
	case cfg.Admin.Listen == config.Off:
		return nil, usageError{errors.New("the admin port is off, so there is nobody to ask; name one by --admin")}
	case c.Admin != "":
	case who != nil:
		at, err := adminclient.ToWriter(a.ctx, who, token)
		if err != nil {
			return nil, fmt.Errorf("%w; %w", who, err)
		}
		return at, nil
	case token != "":
		return nil, usageError{fmt.Errorf("no process writes %s; name the admin port by --admin, as its token is sent to no other", cfg.State.Path)}
	}
	return adminclient.New(local(cfg.Admin.Listen), token, new(net.Dialer).DialContext), nil
}
