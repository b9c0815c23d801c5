package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"sidenote/cache/usage"
	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy/admin"
)

type usageCmd struct {
	Tenant string `arg:"" optional:"" help:"One tenant, in detail (a table of all)."`
	Month  string `placeholder:"YYYY-MM" help:"What was used in a month, by tenant, kind, model and key."`
	CSV    bool   `name:"csv" help:"Print the month as CSV."`
	adminFlags
}

// Help shows how usage is used.
func (usageCmd) Help() string {
	return "Asks a running Sidenote what its tenants used of their limits, and what is left. Days and months are those of UTC.\n\n" +
		"sidenote usage\n\nsidenote usage support\n\nsidenote usage --month 2026-10 --csv"
}

// Run prints the usage of all tenants or of one.
func (c *usageCmd) Run(a *app) error {
	if c.Month != "" || c.CSV {
		return c.month(a)
	}
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

// month prints what was used in a month.
func (c *usageCmd) month(a *app) error {
	if c.CSV && c.JSON {
		return usageError{errors.New("--csv and --json exclude each other")}
	}
	if c.Month == "" {
		return usageError{errors.New("--csv needs --month, as 2026-10")}
	}
	m, err := usage.ParseMonth(c.Month, time.Now())
	if err != nil {
		return usageError{fmt.Errorf("--month: %w", err)}
	}
	at, err := c.client(a)
	if err != nil {
		return err
	}
	var all []admin.MonthUsage
	if c.Tenant != "" {
		all = make([]admin.MonthUsage, 1)
		err = at.Do(a.ctx, http.MethodGet, admin.TenantUsagePath(c.Tenant)+admin.MonthQuery(m), nil, &all[0])
	} else {
		all, err = client.List[admin.MonthUsage](a.ctx, at, admin.UsagePath+admin.MonthQuery(m))
	}
	switch {
	case err != nil:
		return err
	case c.CSV:
		return writeUsageCSV(a.stdout, all)
	case c.JSON:
		return printJSON(a.stdout, map[string]any{"object": "list", "data": all})
	}
	screen.MonthUsage(a.stdout, all)
	return nil
}

// writeUsageCSV writes a line for each row. Dollars are exact decimals.
func writeUsageCSV(to io.Writer, all []admin.MonthUsage) error {
	w := csv.NewWriter(to)
	lines := [][]string{{"month", "tenant", "kind", "model", "key", "requests", "tokens", "injected_tokens", "usd"}}
	for _, one := range all {
		for _, r := range one.Rows {
			lines = append(lines, []string{
				one.Month, one.ID, r.Kind, r.Model, r.Key,
				strconv.FormatInt(r.Requests, 10), strconv.FormatInt(r.Tokens, 10), strconv.FormatInt(r.Injected, 10), r.USD.String(),
			})
		}
	}
	return w.WriteAll(lines)
}
