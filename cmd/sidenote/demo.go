package main

import (
	"sidenote/cmd/sidenote/internal/demo"
)

type demoCmd struct {
	Question string `arg:"" optional:"" help:"What to ask the handbook."`
	Staged   bool   `help:"Answer in stages: evidence, draft, review, final answer."`
	Serve    bool   `help:"Keep serving, for questions of your own."`
	Full     bool   `help:"Show every line that was added."`
	JSON     bool   `name:"json" help:"Print everything as JSON."`
}

// Help shows how demo is used.
func (demoCmd) Help() string {
	return "Ends with 0 only if the sources, or all stages, arrived at the model, which is a stub that knows nothing else.\n\n" +
		"sidenote demo \"May I work from abroad?\"\n\nsidenote demo --staged\n\nsidenote demo --serve"
}

// Run sends one question through Sidenote to a stub upstream and shows what happened.
func (c *demoCmd) Run(a *app) error {
	d := demoRun{
		Question: c.Question, Staged: c.Staged, Serve: c.Serve, JSON: c.JSON, Look: demo.Look{Full: c.Full, Color: colored(a)},
		Stdout: a.stdout, Stderr: a.stderr, Panicked: a.panicked,
	}
	return d.Run(a.ctx)
}
