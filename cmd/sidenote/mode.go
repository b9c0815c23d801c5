package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy/admin"
)

type modeCmd struct {
	Mode   string `arg:"" optional:"" help:"off, shadow, inject, tools or staged; auto or reset restores the policies' mode. Without it, the current settings are shown."`
	Tenant string `placeholder:"NAME" help:"One tenant (all without a setting of their own)."`
	For    string `placeholder:"TIME" help:"How long, as in 30m (until reset)."`
	adminFlags
}

// Help shows how mode is used.
func (modeCmd) Help() string {
	return "Lowers the mode of all tenants of a running instance at once, or of one, which takes precedence. " +
		"A mode never exceeds the policy's. Settings survive a restart in the state folder.\n\n" +
		"sidenote mode\n\nsidenote mode off --for 30m\n\nsidenote mode shadow --tenant support\n\nsidenote mode auto --tenant support"
}

// Run sets a mode, if one is given, and prints the modes that are set.
func (c *modeCmd) Run(a *app) error {
	if known := []string{"", "off", "shadow", "inject", "tools", "staged", admin.ModeAuto, "reset"}; !slices.Contains(known, c.Mode) {
		return usageError{fmt.Errorf("%q is not a mode; write off, shadow, inject, tools or staged, or auto to take back what was set", c.Mode)}
	}
	if c.Mode == "" && c.Tenant+c.For != "" {
		return usageError{errors.New("--tenant and --for need a mode: off, shadow, inject, tools, staged or auto")}
	}
	at, err := c.client(a)
	if err != nil {
		return err
	}
	var modes admin.Modes
	switch c.Mode {
	case "":
		err = at.Do(a.ctx, http.MethodGet, admin.ModePath, nil, &modes)
	case "reset":
		c.Mode = admin.ModeAuto
		fallthrough
	default:
		err = at.Do(a.ctx, http.MethodPost, admin.ModePath, admin.SwitchMode{Mode: c.Mode, Tenant: c.Tenant, For: c.For}, &modes)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, modes)
	}
	screen.Modes(a.stdout, &modes)
	if modes.NotPersisted != "" {
		fmt.Fprintln(a.stderr, "warning: a restart takes this back: "+modes.NotPersisted)
	}
	return nil
}
