package main

import (
	"net/http"

	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy/admin"
)

type usageCmd struct {
	Tenant string `arg:"" optional:"" help:"One tenant, in detail (a table of all)."`
	adminFlags
}

// Help shows how usage is used.
func (usageCmd) Help() string {
	return "Asks a running Sidenote what its tenants used of their limits, and what is left. Days and months are those of UTC.\n\n" +
		"sidenote usage\n\nsidenote usage support"
}

// Run prints the usage of all tenants or of one.
func (c *usageCmd) Run(a *app) error {
	at, err := c.client(a)
	if err != nil {
		return err
	}
	if c.Tenant != "" {
		var one admin.Usage
		if err := at.Do(a.ctx, http.MethodGet, admin.TenantUsagePath(c.Tenant), nil, &one); err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, one)
		}
		screen.TenantUsage(a.stdout, one)
		return nil
	}
	all, err := client.List[admin.Usage](a.ctx, at, admin.UsagePath)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, map[string]any{"object": "list", "data": all})
	}
	screen.Usage(a.stdout, all)
	return nil
}
