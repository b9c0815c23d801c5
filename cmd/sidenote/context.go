package main

import (
	"fmt"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

type contextCmd struct {
	File   string `arg:"" optional:"" help:"What to build of, in JSON: chunks, components or sources, and perhaps model, context, context_tokens, as_given; stdin when absent."`
	Model  string `placeholder:"NAME" help:"Model whose tokens are counted, in place of the file's."`
	Config string `placeholder:"FILE" help:"Configuration (YAML) with models and policy."`
	Tenant string `placeholder:"NAME" help:"Tenant whose policy applies; required if callers without a key are refused."`
	JSON   bool   `name:"json" help:"Print JSON on a terminal too."`
}

// Help shows how context is used.
func (contextCmd) Help() string {
	return "A terminal shows which chunks each message is made of, and which are out and why; everything else gets the messages, as JSON.\n\n" +
		"sidenote context state.json --model gpt-4o"
}

// Run builds the messages locally: it searches no base and calls no upstream.
func (c *contextCmd) Run(a *app) error {
	state, err := (&rewriteCmd{File: c.File}).read(a)
	if err != nil {
		return err
	}
	from := sourceFlags{Config: c.Config, Tenant: c.Tenant}
	cfg, err := from.load(a)
	if err != nil {
		return err
	}
	policy, err := from.policy(cfg, nil)
	if err != nil {
		return err
	}
	table := &server.ModelTable{Rows: cfg.ModelTable(), Encodings: tokens.New()}
	built, err := rewrite.NewAssembler(table).Build(a.ctx, policy.Rewrite, state, c.Model)
	if err != nil {
		return fmt.Errorf("no messages can be built: %w", err)
	}
	if c.JSON || !terminal.IsTerminal(a.stdout) {
		return printJSON(a.stdout, built)
	}
	return screen.Context(a.stdout, built)
}
