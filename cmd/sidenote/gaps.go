package main

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/screen"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/gaps"
	"sidenote/proxy/record"
	"sidenote/retrieval/eval"
)

type gapsCmd struct {
	Config string `placeholder:"FILE" help:"Configuration, YAML, whose policies record."`
	State  string `placeholder:"DIR" help:"Folder with the records and the bases ($XDG_STATE_HOME/sidenote)."`
	Policy string `placeholder:"NAME" help:"Only questions that were asked under this policy."`
	Tenant string `placeholder:"NAME" help:"Only questions of this tenant."`
	Since  string `placeholder:"7d|TIME" help:"Only questions since an age, as in 24h or 7d, or a time, as in 2026-11-23 or 2026-11-23T14:00:00Z (all)."`

	Full bool `help:"Show all groups, not the first 25."`
	JSON bool `name:"json" help:"Print everything as JSON."`
	CSV  bool `name:"csv" help:"Print a line for each group as CSV."`
}

// Help shows how gaps is used.
func (gapsCmd) Help() string {
	return "Groups recorded questions that lack something, by meaning, with the document that is nearest to each: what to write next. " +
		"Something is missing if nothing was found, if the answer cites none of its sources, if what it cites has little of what it says, or if the application's feedback is negative. " +
		"Questions are recorded if a policy has the key record.\n\n" +
		"sidenote gaps --config sidenote.yaml --since 7d\n\nsidenote gaps --config sidenote.yaml --csv"
}

// Run prints the gaps.
func (c *gapsCmd) Run(a *app) error {
	if c.CSV && c.JSON {
		return usageError{errors.New("--csv and --json exclude each other")}
	}
	q := record.Query{Policy: c.Policy, Tenant: c.Tenant}
	var err error
	if q.Since, err = sinceOf(c.Since, time.Now()); err != nil {
		return usageError{err}
	}
	cfg, err := configFlags{Config: c.Config, Flags: config.Flags{State: c.State}}.load(a, true)
	if err != nil {
		return err
	}
	records, err := server.OpenRecords(cfg)
	if err != nil {
		return err
	}
	e, err := sourceFlags{}.open(a, false, cfg, config.Texts(cfg.KnowledgeNames()), server.Options{})
	if err != nil {
		return err
	}
	show, stop := newProgress(a)
	report, err := gaps.Find(a.ctx, records, q, &shownFinder{Finder: server.GapFinder(e, cfg), show: show})
	stop()
	if err = errors.Join(err, e.Close()); err != nil {
		return err
	}
	return errors.Join(undone(a.unread(records)), c.print(a, report))
}

// A shownFinder shows how many questions it has searched for.
type shownFinder struct {
	gaps.Finder
	show *terminal.Progress
	done int
}

// Find implements gaps.Finder.
func (f *shownFinder) Find(ctx context.Context, r *record.Record) (gaps.Finding, error) {
	f.done++
	f.show.Show(terminal.Work{Name: "searching", Done: f.done, Unit: "questions"})
	return f.Finder.Find(ctx, r)
}

func (c *gapsCmd) print(a *app, report *gaps.Report) error {
	switch {
	case c.JSON:
		return printJSON(a.stdout, report)
	case c.CSV:
		return writeGapsCSV(a.stdout, report)
	}
	screen.Gaps(a.stdout, report, c.Full)
	return nil
}

// writeGapsCSV writes a line for each group.
func writeGapsCSV(to io.Writer, report *gaps.Report) error {
	w := csv.NewWriter(to)
	head := []string{"question", "asked"}
	for _, k := range gaps.Kinds() {
		head = append(head, string(k))
	}
	lines := [][]string{append(head, "answered_now", "nearest_kb_id", "nearest_doc_id", "nearest_relevance", "first", "last")}
	for _, g := range report.Groups {
		line := []string{eval.Harmless(g.Question), strconv.Itoa(g.Count)}
		for _, k := range gaps.Kinds() {
			line = append(line, strconv.Itoa(g.Kinds[k]))
		}
		base, doc, relevance := "", "", ""
		if d := g.Nearest; d != nil {
			base, doc, relevance = d.Knowledge, eval.Harmless(d.ID), strconv.FormatFloat(d.Relevance, 'f', 2, 64)
		}
		lines = append(lines, append(line, strconv.Itoa(g.Answered), base, doc, relevance, g.First.UTC().Format(time.RFC3339), g.Last.UTC().Format(time.RFC3339)))
	}
	return w.WriteAll(lines)
}
