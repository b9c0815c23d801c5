package main

import (
	"errors"
	"fmt"
	"os"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/retrieval/eval"
)

type evalCmd struct {
	Data string `required:"" placeholder:"FILE.csv|DIR" help:"Questions: a CSV with the columns question and expected, or a collection in the layout of BEIR."`
	sourceFlags
	Policy   string   `placeholder:"NAME" help:"Policy of --config whose stages answer, instead of the tenant's."`
	Model    string   `placeholder:"NAME" help:"Model of the requests, for a policy whose planner is auto."`
	Split    string   `placeholder:"NAME" help:"Which of qrels/*.tsv (test, or the only one)."`
	Queries  int      `placeholder:"N" help:"Ask the first N queries only."`
	OffTopic string   `name:"off-topic" placeholder:"FILE" help:"Messages that no document answers and that should get no sources, one per line or JSONL."`
	Worst    int      `placeholder:"N" help:"Show the N worst queries: what was found, and what should have been. With --off-topic, also N messages that get sources."`
	Plan     bool     `help:"Print what embedding a collection would cost; send nothing."`
	TRECRun  string   `name:"run" placeholder:"FILE" help:"Write the rankings as a run of TREC, for trec_eval."`
	Compare  bool     `help:"Compare two configurations on the same questions."`
	Full     bool     `help:"With --compare: show all questions that changed, not the first ten."`
	JSON     bool     `name:"json" help:"Print everything as JSON."`
	Files    []string `arg:"" optional:"" name:"a.yaml b.yaml" help:"The configurations of --compare."`
}

// Help shows how eval is used.
func (evalCmd) Help() string {
	return "Asks the questions, and measures what is found as trec_eval does. A CSV is asked of the bases of --knowledge or --config, as a tenant's requests are. " +
		"A collection's own documents are indexed in memory and asked as by default, or by the policy of --config: they are embedded where a base of that policy is. With --knowledge its queries are asked of those bases.\n\n" +
		"sidenote eval --data questions.csv --knowledge handbook\n\nsidenote eval --data ./scifact --worst 5\n\nsidenote eval --data ./scifact --config sidenote.yaml --policy hybrid --plan\n\n" +
		"sidenote eval --data ./scifact --compare before.yaml after.yaml\n\nsidenote eval --data questions.csv --knowledge ./docs --off-topic small-talk.txt\n\n" +
		"questions.csv has the columns question and expected: the id of a document, or a pattern such as policies/**. A question that several documents answer has several rows. If there is a column confirmed, only rows with yes in it are asked. " +
		"A collection has corpus.jsonl with lines of {\"_id\", \"title\", \"text\"}, queries.jsonl of {\"_id\", \"text\"} and, where something was said before, \"turns\", and qrels/test.tsv of query id, document id and grade with tabs between them.\n\n" +
		"Vectors of a collection's own documents are kept in the folder of --state, else until the command ends."
}

// mostChanged limits the changed questions that are shown.
const mostChanged = 10

// Run measures how well the questions of a collection are answered.
func (c *evalCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return usageError{err}
	}
	show, stop := newProgress(a)
	defer stop()
	var messages []eval.Message
	if c.OffTopic != "" {
		var err error
		if messages, err = eval.ReadMessages(a.ctx, c.OffTopic); err != nil {
			return ofData(err)
		}
	}
	if c.Compare {
		return c.compare(a, messages, show)
	}
	e, err := c.evaluate(a, messages, show)
	if err != nil || e == nil {
		return err
	}
	if c.TRECRun != "" {
		if err := writeRun(c.TRECRun, e); err != nil {
			return err
		}
	}
	if c.JSON {
		err = printJSON(a.stdout, e.Answer(c.Worst))
	} else {
		e.Print(a.stdout, c.Worst, colored(a))
	}
	if err != nil {
		return err
	}
	return undone(e.Incomplete())
}

// check refuses combinations of flags that make no sense.
func (c *evalCmd) check() error {
	switch {
	case c.Queries < 0 || c.Worst < 0:
		return errors.New("--queries and --worst take a number of queries")
	case c.Compare && len(c.Files) != 2:
		return errors.New("--compare takes two configurations, as in --compare a.yaml b.yaml")
	case !c.Compare && len(c.Files) > 0:
		return fmt.Errorf("unexpected argument %s; two configurations go with --compare", c.Files[0])
	case c.Compare && (c.Config != "" || c.TRECRun != "" || c.Plan || c.Worst > 0):
		return errors.New("--config, --run, --plan and --worst are about one configuration, and do not go with --compare")
	case c.Full && !c.Compare:
		return errors.New("--full goes with --compare")
	case c.Plan && !c.collected():
		return errors.New("--plan goes with the own documents of a collection, and --config; for others there is ingest --plan")
	case c.Policy != "" && c.Tenant != "":
		return errors.New("--policy and --tenant both choose the policy; give one of them")
	}
	return nil
}

// collected reports whether a collection's own documents are searched with a configuration.
func (c *evalCmd) collected() bool {
	return (c.Config != "" || c.Compare) && len(c.Knowledge) == 0 && !c.isTable()
}

// evaluate asks the questions under one configuration. It returns nil if only a plan was wanted;
// that is then printed.
func (c *evalCmd) evaluate(a *app, messages []eval.Message, show *terminal.Progress) (*evaluation, error) {
	e := &evaluation{Messages: messages}
	end, err := c.prepare(a, e, show)
	if err != nil || e.Subject == nil {
		return nil, ofData(err)
	}
	defer end()
	if c.Queries > 0 {
		e.Data.Queries = e.Data.Queries[:min(c.Queries, len(e.Data.Queries))]
	}
	if err := e.Run(a.ctx, show); err != nil {
		return nil, err
	}
	show.Clear()
	if len(e.Outcomes) == 0 {
		return nil, errors.New("stopped before the first query was answered")
	}
	return e, nil
}

// compare asks the questions under two configurations, one after the other.
func (c *evalCmd) compare(a *app, messages []eval.Message, show *terminal.Progress) error {
	remove, err := c.keepVectors()
	if err != nil {
		return err
	}
	defer remove()
	compared := evalComparison{Name: c.name()}
	for i, file := range c.Files {
		one := *c
		one.Config = file
		e, err := one.evaluate(a, messages, show)
		if _, placed := errors.AsType[strictyaml.Problems](err); err != nil && !placed {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err != nil {
			return err
		}
		compared.Sides[i] = evalSide{Config: file, evaluation: e}
	}
	if err := compared.Asked(); err != nil {
		return err
	}
	n := mostChanged
	if c.Full {
		n = len(compared.Sides[0].Outcomes)
	}
	if c.JSON {
		err = printJSON(a.stdout, compared.Answer(n))
	} else {
		compared.Print(a.stdout, n, colored(a))
	}
	if err != nil {
		return err
	}
	return undone(compared.Incomplete())
}

// keepVectors keeps the vectors of a collection's documents in a temporary folder until remove is
// called, unless --state names a folder.
func (c *evalCmd) keepVectors() (remove func(), err error) {
	if c.State != "" || !c.collected() {
		return func() {}, nil
	}
	if c.State, err = os.MkdirTemp("", "sidenote-eval-"); err != nil {
		return nil, err
	}
	return func() { _ = os.RemoveAll(c.State) }, nil
}

// writeRun writes the rankings into a file.
func writeRun(path string, e *evaluation) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := e.WriteRun(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// colored reports whether the output is a terminal and NO_COLOR is not set.
func colored(a *app) bool {
	noColor, _ := a.env("NO_COLOR")
	return noColor == "" && terminal.IsTerminal(a.stdout)
}

// undone wraps err, which says what was left undone, into a partError; nil stays nil.
func undone(err error) error {
	if err == nil {
		return nil
	}
	return partError{err}
}

// ofData turns the errors of missing data, or of a model that was not named, into usage errors.
func ofData(err error) error {
	if errors.Is(err, eval.ErrNoCollection) || errors.Is(err, errNoPlannerModel) {
		return usageError{err}
	}
	return err
}

// prepare reads the questions and opens the subject that they search; end closes it. For a plan it
// prints that and leaves e.Subject nil.
func (c *evalCmd) prepare(a *app, e *evaluation, show *terminal.Progress) (end func(), err error) {
	e.Name = c.name()
	show.Show(terminal.Work{Name: "reading " + c.Data})
	if c.isTable() {
		questions, err := eval.ReadQuestions(a.ctx, c.Data)
		if err != nil {
			return nil, err
		}
		return c.ofBases(a, e, show, func(s *evalSubject) error {
			if err := s.find(a.ctx, questions.Expected()); err != nil {
				return err
			}
			e.Left = questions.Unconfirmed
			e.Data, e.Unmatched = questions.Collection(s.Documents, s.Several())
			return nil
		})
	}
	if len(c.Knowledge) > 0 {
		return c.ofBases(a, e, show, func(s *evalSubject) error {
			if e.Data, err = eval.ReadFor(a.ctx, c.Data, c.Split, s.Documents); err != nil || len(s.Engines) == 0 {
				return err
			}
			if err = s.find(a.ctx, e.Data.Judged()); err != nil {
				return err
			}
			e.Data, err = eval.ReadFor(a.ctx, c.Data, c.Split, s.Documents)
			return err
		})
	}
	if c.Config == "" && (c.Policy != "" || c.Tenant != "" || c.State != "") {
		return nil, usageError{errors.New("a collection's own documents are asked as by default, or as --config says; --policy, --tenant and --state go with that, with --knowledge, or with a CSV")}
	}
	if e.Data, err = eval.Read(a.ctx, c.Data, c.Split); err != nil {
		return nil, err
	}
	if c.Config != "" {
		return c.ofCollection(a, e, show)
	}
	e.Subject, err = scratchSubject(a.ctx, e.Data.Documents, show)
	return func() {}, err
}
