package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"sidenote/cmd/internal/console"
	"sidenote/rewrite"
)

type rewriteCmd struct {
	File string `arg:"" optional:"" help:"A chat request in JSON; stdin when absent."`
	sourceFlags
	JSON bool `name:"json" help:"Print the ledger as JSON."`
}

// Help shows how rewrite is used.
func (rewriteCmd) Help() string {
	return "The rewritten request goes to stdout, byte for byte; the ledger to stderr.\n\n" +
		"sidenote rewrite request.json --knowledge ./docs > rewritten.json"
}

// Run rewrites one request and sends nothing.
func (c *rewriteCmd) Run(a *app) error {
	body, err := c.read(a)
	if err != nil {
		return err
	}
	e, policy, err := c.ready(a, !c.JSON)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	req, err := rewrite.Parse(body)
	if err != nil {
		if policy.Strict() {
			return fmt.Errorf("the request would be refused: %w", err)
		}
		return fmt.Errorf("the request would pass untouched: %w", err)
	}
	options, err := rewrite.ReadOptions(req)
	if err != nil {
		return err
	}
	policy = policy.Narrow(options)
	policy.CountWhole = true
	res := rewrite.Result{Outcome: rewrite.Untouched, Reason: rewrite.ReasonOff, Edits: rewrite.StripEdits(req, policy)}
	if policy.Mode != rewrite.Off {
		res = e.Rewriter.Rewrite(a.ctx, policy, req, options)
	}
	if err := c.ledger(a, res); err != nil {
		return err
	}
	switch res.Outcome {
	case rewrite.Refused:
		if res.Ambiguity != nil {
			return fmt.Errorf("the request would be refused: %w", res.Ambiguity)
		}
		return fmt.Errorf("the request would be refused: %s", res.Reason)
	case rewrite.Answered:
		return fmt.Errorf("the request would not be sent but answered: %s", policy.EmptyAnswer)
	}
	_, err = a.stdout.Write(rewrite.Apply(nil, body, res.Edits))
	return err
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

func (c *rewriteCmd) ledger(a *app, res rewrite.Result) error {
	if c.JSON {
		return printJSON(a.stderr, struct {
			Outcome rewrite.Outcome `json:"outcome"`
			Reason  rewrite.Reason  `json:"reason,omitempty"`
			Ledger  rewrite.Ledger  `json:"ledger"`
		}{res.Outcome, res.Reason, res.Ledger})
	}
	l := res.Ledger
	fmt.Fprintf(a.stderr, "%s %s\nbudget %s tokens, used %s %s (%s)\n", res.Outcome, res.Reason, console.Thousands(l.Budget), console.Thousands(l.Used), l.Exactness, l.Encoding)
	if l.Placement != "" && l.Placement != rewrite.PlaceSystem {
		fmt.Fprintf(a.stderr, "placement %s\n", l.Placement)
	}
	if line := windowLine(l); line != "" {
		fmt.Fprintln(a.stderr, line)
	}
	if res.Ambiguity != nil {
		fmt.Fprintln(a.stderr, res.Ambiguity.Message)
	}
	if l.Filter != nil {
		fmt.Fprintf(a.stderr, "only documents of %s\n", l.Filter)
	}
	for _, src := range l.Sources {
		fmt.Fprintf(a.stderr, "%-4s %-4s %s#%d  %s  %d tokens  %s\n", src.Fate, mark(src.ID), src.Doc, src.Chunk, src.Section, src.Tokens, src.Detail)
	}
	return nil
}

// windowLine shows how the model's window is used.
func windowLine(l rewrite.Ledger) string {
	w := l.Window
	if w.Cost == nil {
		return ""
	}
	text := fmt.Sprintf("request %s tokens: messages %s", console.Thousands(w.Request), console.Thousands(w.Cost.Messages))
	for _, part := range []struct {
		name string
		n    int
	}{{"tools", w.Cost.Tools}, {"response_format", w.Cost.Format}, {"images", w.Cost.Images}, {"reserve", w.Reserve}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %s %s", part.name, console.Thousands(part.n))
		}
	}
	text += fmt.Sprintf("; reserved for the answer %s; ", console.Thousands(w.ReservedOutput))
	if w.Size == 0 {
		return text + "window unknown"
	}
	return text + fmt.Sprintf("window %s, room %s", console.Thousands(w.Size), console.Thousands(w.Room))
}

func mark(id int) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("[%d]", id)
}
