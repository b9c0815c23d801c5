package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/billing"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/cmd/sidenote/internal/serving"
)

type stubCmd struct {
	Listen  config.Address `default:"127.0.0.1:9090" placeholder:"HOST:PORT" help:"Where it answers (${default})."`
	Billing billing.Rule   `placeholder:"RULE" help:"Bill a prompt cache as this upstream does: openai-5.6, prefix, anthropic or gemini. GET /billing has the totals."`
}

// Help shows how stub is used.
func (stubCmd) Help() string {
	return "A fake upstream for testing, without key or network. It answers only from the sources in the request.\n\n" +
		"sidenote stub & sidenote serve --upstream http://127.0.0.1:9090 --knowledge ./docs\n\n" +
		"With --billing it prints what each request costs, in units of one uncached input token."
}

// Run serves until it is asked to stop.
func (c *stubCmd) Run(a *app) error {
	if c.Listen == config.Off {
		return usageError{errors.New("--listen: cannot be off; write host:port")}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(a.ctx, "tcp", string(c.Listen))
	if err != nil {
		return fmt.Errorf("--listen: %s: %w", c.Listen, terminal.Cause(err))
	}
	fmt.Fprintf(a.stderr, "listening  http://%s/v1          a stub that answers only from what it is shown\n", serving.LocalAddr(l))
	stub := &demo.Stub{}
	if c.Billing != "" {
		stub.Billing = billing.NewMeter(c.Billing, time.Now, a.stdout)
		defer func() { fmt.Fprintln(a.stdout, stub.Billing.Totals()) }()
	}
	server := &http.Server{Handler: stub, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(a.ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", c.Listen, err)
	}
	return nil
}
