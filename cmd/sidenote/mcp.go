package main

import (
	"log/slog"

	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/mcp"
)

type mcpCmd struct{ sourceFlags }

// Help shows how mcp is used.
func (mcpCmd) Help() string {
	return "Serves the tools that models have under mode: tools to one client of the Model Context Protocol, which starts it " +
		"and speaks over stdin and stdout. Folders are read once, before the first answer.\n\n" +
		"claude mcp add handbook -- sidenote mcp --knowledge ./docs\n\n" +
		"sidenote mcp --config sidenote.yaml --tenant support\n\n" +
		"For clients elsewhere: sidenote serve --mcp HOST:PORT."
}

// Run serves the tools over stdin and stdout, as the tenant.
func (c *mcpCmd) Run(a *app) error {
	e, policy, err := c.ready(a, true, nil)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	log := slog.New(slog.NewTextHandler(a.stderr, nil))
	for _, line := range e.Bases.InPart(policy.Rewrite.Knowledge) {
		log.Warn(line)
	}
	knowledge := server.MCP(e)
	knowledge.OnCall = func(call mcp.Call) { server.LogCall(log, call) }
	return knowledge.Serve(a.ctx, &mcp.Caller{Policy: policy.Rewrite}, a.stdin, a.stdout)
}
