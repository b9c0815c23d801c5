package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/serving"
	"sidenote/retrieval/knowledge/store"
)

// adminFlags choose the running Sidenote that a command calls.
type adminFlags struct {
	Config         string `placeholder:"FILE" help:"Configuration, YAML."`
	Admin          string `placeholder:"HOST:PORT" help:"Admin port to ask (that of the process that writes the state folder, or else the configuration's)."`
	State          string `placeholder:"DIR" help:"State folder of that process ($XDG_STATE_HOME/sidenote)."`
	AdminTokenFile string `placeholder:"FILE" help:"Token of the admin port ($SIDENOTE_ADMIN_TOKEN)."`
	JSON           bool   `name:"json" help:"Print everything as JSON."`
	shownFlags
}

// shownFlags name the client certificate that a command presents to an admin port.
type shownFlags struct {
	AdminCert string `placeholder:"FILE" help:"Certificate to show to an admin port that asks for one, PEM (that of admin.tls)."`
	AdminKey  string `placeholder:"FILE" help:"Its key, PEM."`
}

// certificate returns the certificate of the flags, or else that of the configuration.
func (f shownFlags) certificate(cfg *config.Config) *client.Certificate {
	own := cfg.Admin.TLS
	return &client.Certificate{Cert: f.AdminCert, Key: f.AdminKey, OwnCert: own.Cert, OwnKey: own.Key}
}

// client returns a client of the admin port of --admin, or else of the process that writes the
// state folder, or else of the configuration. Another program may listen on the configured port by
// now and nothing proves who it is, so no token is sent there.
func (f adminFlags) client(a *app) (*client.Admin, error) {
	flags := configFlags{Config: f.Config, Flags: config.Flags{Admin: f.Admin, State: f.State, AdminTokenFile: f.AdminTokenFile}}
	cfg, err := config.AdminPort(flags.source(a))
	if err != nil {
		return nil, err
	}
	token := cfg.AdminToken(time.Now()).Reveal()
	who := store.Writer(cfg.State.Path)
	switch {
	case cfg.Admin.Listen == config.Off:
		return nil, usageError{errors.New("the admin port is off; choose a running instance with --admin")}
	case f.Admin != "":
	case who != nil:
		if err := sameAdmin(cfg, who.Address); err != nil {
			return nil, usageError{fmt.Errorf("%w, and %w; name the one to ask by --admin", err, who)}
		}
		at, err := client.AdminOfWriter(a.ctx, who, token, f.certificate(cfg))
		if err != nil {
			return nil, fmt.Errorf("%w; %w", who, err)
		}
		return at, nil
	case token != "":
		return nil, usageError{fmt.Errorf("no process writes %s; name the admin port by --admin, as its token is sent to no other", cfg.State.Path)}
	}
	at, own := serving.LocalURL(cfg.Admin.Listen, cfg.Admin.TLS.On()), cfg.Admin.TLS.Cert
	return client.AdminAt(at, token, own, "admin.tls.cert", f.certificate(cfg))
}

// sameAdmin returns an error if the configuration names another admin port than the process that
// writes the state folder has at address. Several instances may share a folder, and a kill switch
// meant for one must not be set in another.
func sameAdmin(cfg *config.Config, address string) error {
	at, _, written := config.Written(cfg, "admin.listen")
	_, port, _ := net.SplitHostPort(string(cfg.Admin.Listen))
	if !written || address == "" || port == "0" || port != "" && strings.HasSuffix(address, ":"+port) || strings.HasSuffix(address, string(cfg.Admin.Listen)) {
		return nil
	}
	return fmt.Errorf("%s: admin.listen is %s", at, cfg.Admin.Listen)
}
