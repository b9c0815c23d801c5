package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy"
	"sidenote/proxy/explain"
	"sidenote/rewrite"
	"sidenote/rewrite/chat"
)

type rewriteCmd struct {
	File string `arg:"" optional:"" help:"A chat request in JSON; stdin when absent."`
	API  string `name:"api" enum:"auto,chat,responses,messages" default:"auto" help:"API of the request: chat, responses, messages, or auto: guessed from its members."`
	sourceFlags
	Stages bool `help:"Print the prompts of all stages of mode staged, with placeholders for what only a model can say."`
	Full   bool `help:"Show all excluded candidates, not only the first three."`
	JSON   bool `name:"json" help:"Print the ledger as JSON, with everything excluded."`
}

// Help shows how rewrite is used.
func (rewriteCmd) Help() string {
	return "The rewritten request goes to stdout, byte for byte; the ledger to stderr.\n\n" +
		"sidenote rewrite request.json --knowledge ./docs > rewritten.json"
}

// Run rewrites one request and does not send it; only the policy's planner may be called.
func (c *rewriteCmd) Run(a *app) error {
	body, err := c.read(a)
	if err != nil {
		return err
	}
	e, whole, err := c.ready(a, !c.JSON, body)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	policy := whole.Rewrite
	api := chat.APIOf(body)
	for _, named := range []chat.API{chat.Completions, chat.Responses, chat.Messages} {
		if c.API == named.String() {
			api = named
		}
	}
	req, err := api.Parse(body)
	if err != nil && (req == nil || !req.Empty) {
		if policy.Strict() {
			return fmt.Errorf("the request would be refused: %w", err)
		}
		return fmt.Errorf("the request would pass untouched: %w", err)
	}
	asked, err := rewrite.ReadOptions(req)
	if err != nil {
		return err
	}
	if err := rewrite.MistypedBase(asked, policy.Knowledge); err != nil {
		return fmt.Errorf("the request would be refused: %w", err)
	}
	if req.Empty && asked.Chunks == nil {
		return errors.New("the request would pass untouched: it has no messages")
	}
	policy, req, asked, err = e.Rewriter.InsertChunks(policy.Narrow(asked), req, asked)
	if err != nil {
		return fmt.Errorf("the request would be refused: %w", err)
	}
	policy.CountWhole = true
	e.Planners.SetHelpers(&policy, proxy.PlanDryRun(&policy, req.Model, nil))
	r := explain.DryRun(a.ctx, e.Rewriter, &whole, policy, req, asked, rewrite.ReasonOff)
	if err := c.ledger(a, &r); err != nil {
		return err
	}
	if err := notSent(&r, &policy); err != nil {
		return err
	}
	if c.Stages {
		return printPrompts(a, &r, policy.Mode)
	}
	if r.Stages != nil && !c.JSON {
		fmt.Fprintln(a.stderr, "stages: the request is answered in stages, whose prompts --stages prints; this is what goes up where they fail")
	}
	_, err = a.stdout.Write(rewrite.ApplyEdits(nil, req.Body, r.Rewrite.Edits))
	return err
}

// notSent returns why a request would not be sent to the upstream, or nil.
func notSent(r *explain.DryRunResult, p *rewrite.Policy) error {
	res := &r.Rewrite
	switch {
	case res.Outcome == rewrite.Answered:
		return fmt.Errorf("the request would not be sent but answered: %s", p.EmptyAnswer)
	case res.Outcome != rewrite.Refused:
		return nil
	case r.StagesSkipped != "":
		return fmt.Errorf("the request would be refused: a chain of stages cannot carry it: %s", r.StagesSkipped)
	case res.Ambiguity != nil:
		return fmt.Errorf("the request would be refused: %w", res.Ambiguity)
	}
	return fmt.Errorf("the request would be refused: %s", res.Reason)
}

// printPrompts prints the prompt of each stage.
func printPrompts(a *app, r *explain.DryRunResult, mode rewrite.Mode) error {
	switch {
	case mode != rewrite.Staged:
		return fmt.Errorf("the request would not be answered in stages: the mode is %s", mode)
	case r.Stages == nil:
		return fmt.Errorf("the request would not be answered in stages: %s", r.StagesSkipped)
	}
	screen.Prompts(a.stdout, r.Stages)
	return nil
}

// maxFile is the size, in bytes, of the largest request that a dry run reads.
const maxFile = 256 << 20

func (c *rewriteCmd) read(a *app) ([]byte, error) {
	in := a.stdin
	if c.File != "" && c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, usageError{err}
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if len(body) > maxFile {
		return nil, usageError{errors.New("the request is larger than 256 MiB")}
	}
	return body, nil
}

// ledger prints the result of the rewrite.
func (c *rewriteCmd) ledger(a *app, r *explain.DryRunResult) error {
	if c.JSON {
		return printJSON(a.stderr, struct {
			Outcome   rewrite.Outcome `json:"outcome"`
			Reason    rewrite.Reason  `json:"reason,omitempty"`
			Tools     []string        `json:"tools,omitempty"`
			Unoffered string          `json:"unoffered,omitempty"`
			Unstaged  string          `json:"unstaged,omitempty"`
			Ledger    rewrite.Ledger  `json:"ledger"`
		}{r.Outcome, r.Reason, r.Tools, r.ToolsSkipped, r.StagesSkipped, r.Rewrite.Ledger.WithExcluded()})
	}
	res := r.Rewrite
	res.Outcome = r.Outcome
	screen.Rewrite(a.stderr, res, c.Full)
	screen.Offered(a.stderr, r.Tools, r.ToolsSkipped)
	screen.StagesSkipped(a.stderr, r.StagesSkipped)
	return nil
}
