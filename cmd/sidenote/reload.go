package main

import (
	"errors"
	"fmt"
	"net/http"

	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/serving"
	"sidenote/proxy/admin"
)

type reloadCmd struct{ adminFlags }

// Help shows how reload is used.
func (reloadCmd) Help() string {
	return "Asks a running Sidenote to read its configuration again, with included files and files of secrets, and prints what has changed. " +
		"Problems are reported with file, line and column, and the running configuration stays. " +
		"A serve also does this by itself when a file changes, and on SIGHUP.\n\nsidenote reload"
}

// Run makes a running Sidenote reload its configuration.
func (c *reloadCmd) Run(a *app) error {
	at, err := c.client(a)
	if err != nil {
		return err
	}
	var changed admin.Reloaded
	if err := at.Do(a.ctx, http.MethodPost, admin.ReloadPath, nil, &changed); err != nil {
		if r, ok := errors.AsType[*client.AdminRefused](err); ok && r.Status == http.StatusUnprocessableEntity {
			fmt.Fprintln(a.stderr, r.Message) // a problem a line
			return usageError{errors.New("the configuration was not reloaded; the running one stays in use")}
		}
		return err
	}
	if c.JSON {
		return printJSON(a.stdout, changed)
	}
	fmt.Fprintln(a.stdout, serving.Summary(changed))
	return nil
}
