package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sidenote/cmd/internal/console"
	"sidenote/cmd/sidenote/internal/evaluation"
	"sidenote/retrieval/eval"
)

type evalCmd struct {
	Data string `required:"" placeholder:"FILE.csv|DIR" help:"Questions: a CSV with the columns question and expected, or a collection in the layout of BEIR."`
	sourceFlags
	Split    string `placeholder:"NAME" help:"Which of qrels/*.tsv (test, or the only one)."`
	Queries  int    `placeholder:"N" help:"Ask the first N queries only."`
	OffTopic string `name:"off-topic" placeholder:"FILE" help:"Messages that no document answers, one a line or as JSONL, and which should get no sources."`
	Worst    int    `placeholder:"N" help:"Show the N queries that went worst: what was found, and what should have been. With --off-topic, N messages that get sources too."`
	JSON     bool   `name:"json" help:"Print everything as JSON."`
}

// Help shows how eval is used.
func (evalCmd) Help() string {
	return "Asks the questions, and measures what is found as trec_eval does. A CSV is asked of the bases of --knowledge or --config, as a tenant's requests are. " +
		"A collection's own documents are indexed in memory and asked as by default; with --knowledge its queries are asked of those bases.\n\n" +
		"sidenote eval --data questions.csv --knowledge handbook\n\nsidenote eval --data ./scifact --worst 5\n\nsidenote eval --data questions.csv --knowledge ./docs --off-topic small-talk.txt\n\n" +
		"questions.csv has the columns question and expected: the id of a document, or a pattern such as policies/**. A question that several documents answer has several rows. " +
		"A collection has corpus.jsonl with lines of {\"_id\", \"title\", \"text\"}, queries.jsonl of {\"_id\", \"text\"} and, where something was said before, \"turns\", and qrels/test.tsv of query id, document id and grade with tabs between them."
}

// Run measures how well the queries of a collection are answered.
func (c *evalCmd) Run(a *app) error {
	if c.Queries < 0 || c.Worst < 0 {
		return usageError{errors.New("--queries and --worst take a number of queries")}
	}
	show, stop := newProgress(a)
	defer stop()
	var e evaluation.Evaluation
	if c.OffTopic != "" {
		var err error
		if e.Messages, err = eval.ReadMessages(a.ctx, c.OffTopic); err != nil {
			return ofData(err)
		}
	}
	end, err := c.prepare(a, &e, show)
	if err != nil {
		return ofData(err)
	}
	defer end()
	if c.Queries > 0 {
		e.Data.Queries = e.Data.Queries[:min(c.Queries, len(e.Data.Queries))]
	}
	if err := e.Run(a.ctx, show); err != nil {
		return err
	}
	show.Clear()
	if len(e.Outcomes) == 0 {
		return errors.New("stopped before the first query was answered")
	}
	if c.JSON {
		if err := printJSON(a.stdout, e.Answer(c.Worst)); err != nil {
			return err
		}
	} else {
		noColor, _ := a.env("NO_COLOR")
		e.Print(a.stdout, c.Worst, noColor == "" && console.IsTerminal(a.stdout))
	}
	if err := e.Undone(); err != nil {
		return partError{err}
	}
	return nil
}

// ofData makes the error of data that are not there a mistake of usage.
func ofData(err error) error {
	if errors.Is(err, eval.ErrNoCollection) {
		return usageError{err}
	}
	return err
}

// prepare reads the questions, and makes ready what they are asked of until end is called.
func (c *evalCmd) prepare(a *app, e *evaluation.Evaluation, show *console.Progress) (end func(), err error) {
	e.Name = c.name()
	show.Show(console.Work{Name: "reading " + c.Data})
	if c.isTable() {
		questions, err := eval.ReadQuestions(a.ctx, c.Data)
		if err != nil {
			return nil, err
		}
		return c.ofBases(a, e, show, func(s *evaluation.Subject) error {
			e.Data, e.Unmatched = questions.Collection(s.Documents, s.Several())
			return nil
		})
	}
	if len(c.Knowledge) > 0 {
		return c.ofBases(a, e, show, func(s *evaluation.Subject) error {
			e.Data, err = eval.ReadFor(a.ctx, c.Data, c.Split, s.Documents)
			return err
		})
	}
	if c.Config != "" || c.Tenant != "" || c.State != "" {
		return nil, usageError{errors.New("a collection's own documents are asked as by default; --config, --tenant and --state go with --knowledge, or with a CSV")}
	}
	if e.Data, err = eval.Read(a.ctx, c.Data, c.Split); err != nil {
		return nil, err
	}
	e.Subject, err = evaluation.Scratch(a.ctx, e.Data.Documents, show)
	return func() {}, err
}

// ofBases opens the bases that the flags choose and reads the questions, which is told what
// documents there are.
func (c *evalCmd) ofBases(a *app, e *evaluation.Evaluation, show *console.Progress, read func(*evaluation.Subject) error) (end func(), err error) {
	show.Clear()
	opened, policy, err := c.ready(a, !c.JSON, nil)
	if err != nil {
		return nil, err
	}
	end = func() { _ = opened.Close() }
	for _, line := range opened.Bases.InPart(policy.Knowledge) {
		fmt.Fprintln(a.stderr, line)
	}
	if e.Subject, err = evaluation.OfBases(opened, policy); err == nil {
		err = read(e.Subject)
	}
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// isTable tells whether the questions are a file, or would be one by its name.
func (c *evalCmd) isTable() bool {
	info, err := os.Stat(c.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return strings.EqualFold(filepath.Ext(c.Data), ".csv")
	}
	return err == nil && !info.IsDir()
}

// name is that of the folder or file.
func (c *evalCmd) name() string {
	if path, err := filepath.Abs(c.Data); err == nil {
		return filepath.Base(path)
	}
	return c.Data
}
