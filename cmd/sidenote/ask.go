package main

import (
	"errors"
	"fmt"
	"net"

	"sidenote/cmd/sidenote/internal/adminclient"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/knowledge/store"
)

// adminFlags choose the running Sidenote that a command asks.
type adminFlags struct {
	Config         string `placeholder:"FILE" help:"Configuration, YAML."`
	Admin          string `placeholder:"HOST:PORT" help:"Admin port to ask (that of the process that writes the state folder, or else the configuration's)."`
	State          string `placeholder:"DIR" help:"State folder of that process ($XDG_STATE_HOME/sidenote)."`
	AdminTokenFile string `placeholder:"FILE" help:"Token of the admin port ($SIDENOTE_ADMIN_TOKEN)."`
	JSON           bool   `name:"json" help:"Print everything as JSON."`
}

// client returns a client of the admin port that --admin names, or else of the process that
// writes the state folder, or else of the port of the configuration. That last one may be
// another program's by now and proves nothing, so no token is sent to it.
func (f adminFlags) client(a *app) (*adminclient.Client, error) {
	cfg, err := configFlags{Config: f.Config, Flags: config.Flags{Admin: f.Admin, State: f.State, AdminTokenFile: f.AdminTokenFile}}.load(a, true)
	if err != nil {
		return nil, err
	}
	token := cfg.Admin.Token.Value.Reveal()
	who := store.Writer(cfg.State.Path)
	switch {
	case cfg.Admin.Listen == config.Off:
		return nil, usageError{errors.New("the admin port is off, so there is nobody to ask; name one by --admin")}
	case f.Admin != "":
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
