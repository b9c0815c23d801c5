package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/proxy"
	"sidenote/retrieval/tools"
)

type toolCmd struct {
	Name      string   `arg:"" optional:"" help:"search_knowledge, read_knowledge, search_files or recall. Without it, models' descriptions of them are shown."`
	Query     *string  `placeholder:"TEXT" help:"What to look for."`
	TopK      *int     `placeholder:"N" help:"Hits at most, of search_knowledge."`
	Refs      []string `name:"ref" sep:"none" placeholder:"KB:DOC:CHUNK" help:"What read_knowledge reads, as search_knowledge gives it. Repeat for more."`
	MaxChars  *int     `placeholder:"N" help:"Characters at most, of read_knowledge."`
	MaxFiles  *int     `placeholder:"N" help:"Documents at most, of search_files."`
	MaxTokens *int     `placeholder:"N" help:"Tokens at most, of recall."`
	FilePaths []string `name:"file-path" sep:"none" placeholder:"PATH" help:"Documents that recall reads, as search_files gives them. Repeat for more."`
	Model     string   `placeholder:"NAME" help:"Model whose tokens are counted."`
	JSON      bool     `name:"json" help:"Print the result as a program reads it."`
	sourceFlags
}

// Help shows how tool is used.
func (toolCmd) Help() string {
	return "Runs one of the tools that models have under mode: tools, and prints what a model would read.\n\n" +
		"sidenote tool search_knowledge --query \"parental leave\" --knowledge ./docs\n\n" +
		"sidenote tool read_knowledge --ref docs:leave.md:1 --knowledge ./docs\n\n" +
		"sidenote tool recall --query \"parental leave\" --max-tokens 500 --knowledge ./docs"
}

// arguments returns the flags that were given, as JSON arguments of a tool call.
func (c *toolCmd) arguments() []byte {
	given := map[string]any{}
	for name, value := range map[string]*int{"top_k": c.TopK, "max_chars": c.MaxChars, "max_files": c.MaxFiles, "max_tokens": c.MaxTokens} {
		if value != nil {
			given[name] = *value
		}
	}
	if c.Query != nil {
		given["query"] = *c.Query
	}
	if c.Refs != nil {
		given["refs"] = c.Refs
	}
	if c.FilePaths != nil {
		given["file_paths"] = c.FilePaths
	}
	text, err := json.Marshal(given)
	if err != nil {
		panic("BUG: arguments of a tool: " + err.Error())
	}
	return text
}

// Run runs the tool as a model of the tenant would; without a name it describes all tools.
func (c *toolCmd) Run(a *app) error {
	if c.Name == "" {
		return c.describe(a)
	}
	if err := tools.ToolName(c.Name).Check(); err != nil {
		return usageError{err}
	}
	e, whole, err := c.ready(a, true, nil)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	policy := whole.Rewrite
	policy.Search.Deadline = max(policy.Search.Deadline, commandDeadline)
	e.Planners.SetHelpers(&policy, proxy.PlanDryRun(&policy, c.Model, nil))
	who := tools.NewCaller(&policy, e.Rewriter.Models.Model(c.Model))
	res := e.Toolbox().Call(a.ctx, who, tools.ToolName(c.Name), c.arguments())
	if wrong, ok := errors.AsType[*tools.ArgumentError](res.Err); ok {
		return usageError{fmt.Errorf("%s: %w", c.Name, wrong)}
	}
	if res.Err != nil {
		return res.Err
	}
	for _, line := range e.Bases.InPart(policy.Knowledge) {
		fmt.Fprintln(a.stderr, line)
	}
	if c.JSON {
		return printJSON(a.stdout, res.Data)
	}
	fmt.Fprintln(a.stdout, strings.TrimSuffix(res.Content, "\n"))
	return nil
}

// describe prints the tool descriptions that the tenant's models get.
func (c *toolCmd) describe(a *app) error {
	cfg, err := c.load(a)
	if err != nil {
		return err
	}
	policy, err := c.policy(cfg, nil)
	if err != nil {
		return err
	}
	box := tools.Box{Bases: func() []tools.Base { return config.ToolBases(cfg.Knowledge, cfg.KnowledgeNames()) }}
	all := tools.Define(tools.ToolNames(), box.Described(policy.Rewrite.Knowledge))
	if c.JSON {
		return printJSON(a.stdout, map[string]any{"object": "list", "data": all})
	}
	for _, d := range all {
		fmt.Fprintf(a.stdout, "%-16s  %s\n", d.Name, d.Description)
	}
	return nil
}
