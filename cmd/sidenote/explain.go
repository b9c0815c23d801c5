package main

import (
	"fmt"
	"net/http"

	"github.com/oklog/ulid/v2"

	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy/admin"
	"sidenote/proxy/explain"
)

type explainCmd struct {
	ID string `arg:"" help:"Of the request, as in the header Sidenote-Id of its answer."`
	adminFlags
}

// Help shows how explain is used.
func (explainCmd) Help() string {
	return "Asks a running Sidenote, which keeps the last 1,000 requests (explain.keep), and what was in them if explain.bodies says so.\n\n" +
		"sidenote explain 01M7Y9S0G540QS2PPDJ5EB1HAP"
}

// Run prints what is recorded of one request.
func (c *explainCmd) Run(a *app) error {
	if _, err := ulid.ParseStrict(c.ID); err != nil {
		return usageError{fmt.Errorf("%q is not a request id; take it from the response header Sidenote-Id", c.ID)}
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
