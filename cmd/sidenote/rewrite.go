package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/proxy"
	"sidenote/proxy/planning"
	"sidenote/proxy/report"
	"sidenote/proxy/rounds"
	"sidenote/rewrite"
	"sidenote/rewrite/options"
	"sidenote/rewrite/staged"
)

type rewriteCmd struct {
	File string `arg:"" optional:"" help:"A chat request in JSON; stdin when absent."`
	sourceFlags
	Stages bool `help:"Print the prompts of all stages of mode staged, with placeholders for what only a model can say."`
	Full   bool `help:"Show everything that is out, not the first three only."`
	JSON   bool `name:"json" help:"Print the ledger as JSON, with everything that is out."`
}

// Help shows how rewrite is used.
func (rewriteCmd) Help() string {
	return "The rewritten request goes to stdout, byte for byte; the ledger to stderr.\n\n" +
		"sidenote rewrite request.json --knowledge ./docs > rewritten.json"
}

// Run rewrites one request and sends nothing, but what the policy's planner is asked.
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
	req, err := rewrite.Parse(body)
	if err != nil && (req == nil || !req.Empty) {
		if policy.Strict() {
			return fmt.Errorf("the request would be refused: %w", err)
		}
		return fmt.Errorf("the request would pass untouched: %w", err)
	}
	asked, err := options.Read(req)
	if err != nil {
		return err
	}
	if err := options.Mistyped(asked, policy.Knowledge); err != nil {
		return fmt.Errorf("the request would be refused: %w", err)
	}
	if req.Empty && asked.Chunks == nil {
		return errors.New("the request would pass untouched: messages is empty")
	}
	policy, req, asked, err = e.Rewriter.TakeChunks(policy.Narrow(asked), req, asked)
	if err != nil {
		return fmt.Errorf("the request would be refused: %w", err)
	}
	policy.CountWhole = true
	e.Planners.Help(&policy, planning.DryRun(&policy, req.Model, nil))
	if c.Stages {
		return c.stages(a, e, &whole, policy, req, asked)
	}
	res := rewrite.Result{Outcome: rewrite.Untouched, Reason: rewrite.ReasonOff, Edits: rewrite.StripEdits(req, policy)}
	if policy.Mode != rewrite.Off {
		rep, offered := rounds.DryRun(a.ctx, e.Rewriter, &whole.Tools, policy, req, asked)
		res = rep.Rewrite
		err = c.ledger(a, &rep, offered)
	} else {
		asked.Taken.Tell(&res.Ledger)
		err = c.ledger(a, &report.Report{Outcome: res.Outcome, Reason: res.Reason, Rewrite: res}, nil)
	}
	if err != nil {
		return err
	}
	if err := notSent(&res, &policy); err != nil {
		return err
	}
	if policy.Mode == rewrite.Staged {
		if err := c.inStages(a, staged.Unfit(req), &whole.Stages); err != nil {
			return err
		}
	}
	_, err = a.stdout.Write(rewrite.Apply(nil, req.Body, res.Edits))
	return err
}

// notSent is why a request would not go up; nil if it would.
func notSent(res *rewrite.Result, p *rewrite.Policy) error {
	switch res.Outcome {
	case rewrite.Refused:
		if res.Ambiguity != nil {
			return fmt.Errorf("the request would be refused: %w", res.Ambiguity)
		}
		return fmt.Errorf("the request would be refused: %s", res.Reason)
	case rewrite.Answered:
		return fmt.Errorf("the request would not be sent but answered: %s", p.EmptyAnswer)
	}
	return nil
}

// inStages says that what is printed is not what goes up first; unfit is why it is nevertheless.
func (c *rewriteCmd) inStages(a *app, unfit staged.Reason, of *staged.Policy) error {
	switch {
	case unfit != "" && of.RefuseUnfit:
		return fmt.Errorf("the request would be refused: a chain of stages cannot carry it: %s", unfit)
	case c.JSON:
	case unfit != "":
		fmt.Fprintf(a.stderr, "stages: none, %s\n", unfit)
	default:
		fmt.Fprintln(a.stderr, "stages: the request is answered in stages, whose prompts --stages prints; this is what goes up where they fail")
	}
	return nil
}

// stages prints what each stage would be asked.
func (c *rewriteCmd) stages(a *app, e *engine.Engine, whole *proxy.Policy, p rewrite.Policy, req *rewrite.Request, asked rewrite.Options) error {
	if p.Mode != rewrite.Staged {
		return fmt.Errorf("the request would not be answered in stages: the mode is %s", p.Mode)
	}
	if why := staged.Unfit(req); why != "" {
		return fmt.Errorf("the request would not be answered in stages: %s", why)
	}
	chain := whole.Stages.Chain
	res := e.Rewriter.Rewrite(a.ctx, p.Protecting(chain.Tags()), req, asked)
	if err := c.ledger(a, &report.Report{Outcome: res.Outcome, Reason: res.Reason, Rewrite: res}, nil); err != nil {
		return err
	}
	if err := notSent(&res, &p); err != nil {
		return err
	}
	counter := res.Model.Counter
	in := staged.Inputs{Question: staged.Question(req), Context: res.Block, History: staged.History(req, counter), Counter: counter}
	screen.Prompts(a.stdout, chain, in)
	return nil
}

// maxFile is the largest request, in bytes, that a dry run reads.
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

// ledger prints what becomes of the request, whose model would be offered tools by some names.
func (c *rewriteCmd) ledger(a *app, r *report.Report, offered []string) error {
	if c.JSON {
		return printJSON(a.stderr, struct {
			Outcome   rewrite.Outcome `json:"outcome"`
			Reason    rewrite.Reason  `json:"reason,omitempty"`
			Tools     []string        `json:"tools,omitempty"`
			Unoffered string          `json:"unoffered,omitempty"`
			Ledger    rewrite.Ledger  `json:"ledger"`
		}{r.Outcome, r.Reason, offered, r.Unoffered, r.Rewrite.Ledger.Whole()})
	}
	res := r.Rewrite
	res.Outcome = r.Outcome
	screen.Rewrite(a.stderr, res, c.Full)
	screen.Offered(a.stderr, offered, r.Unoffered)
	return nil
}
