package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"sidenote/cache/budget"
	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/client"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/replay"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/explain"
	"sidenote/proxy/record"
	"sidenote/retrieval/eval"
	"sidenote/rewrite"
	"sidenote/rewrite/tokens"
)

type replayCmd struct {
	Config string `placeholder:"FILE" help:"Configuration, YAML, whose policies record."`
	State  string `placeholder:"DIR" help:"Folder with the records and the bases ($XDG_STATE_HOME/sidenote)."`
	Policy string `placeholder:"NAME" help:"Policy under which the questions are asked again (each under that of its record)."`
	Model  string `placeholder:"NAME" help:"Model, or row of the model table, for all questions (those of the records)."`

	From   string `placeholder:"POLICY" help:"Only records of this policy."`
	Tenant string `placeholder:"NAME" help:"Only records of this tenant."`
	Since  string `placeholder:"7d|TIME" help:"Only records since an age, as in 24h or 7d, or a time, as in 2026-11-23 or 2026-11-23T14:00:00Z (all)."`
	Limit  int    `placeholder:"N" help:"Only the last N of these."`

	Helpers      bool   `help:"Ask planners, rerankers and graders of the policy too, which cost money."`
	WithUpstream bool   `help:"Send each question to the upstream too, once, without tools and stages. Needs --budget, and prices."`
	Budget       string `placeholder:"USD" help:"With --with-upstream: the most that the answers may cost."`

	Full   bool   `help:"Show all questions that changed, not those that changed most."`
	JSON   bool   `name:"json" help:"Print everything as JSON."`
	Page   string `placeholder:"FILE.html" help:"Write a page with what was and what would be added, side by side."`
	Export string `placeholder:"FILE.csv" help:"Write the questions with the documents that answers cited, for eval, and replay nothing."`
}

// Help shows how replay is used.
func (replayCmd) Help() string {
	return "Runs recorded questions through a policy again, without an upstream and without caches: which get other sources, more tokens, none at all. " +
		"Without --policy it shows what another state of the bases, or another version of Sidenote, does. Questions are recorded if a policy has the key record. " +
		"Where bases have vectors the questions are embedded again. Filters of tenants and of the recorded requests hold under every policy, and no base is searched that the policy does not have.\n\n" +
		"sidenote replay --config sidenote.yaml --policy careful --since 7d\n\nsidenote replay --config sidenote.yaml --page replay.html\n\n" +
		"sidenote replay --config sidenote.yaml --policy careful --with-upstream --budget 2.50\n\nsidenote replay --config sidenote.yaml --export questions.csv\n\n" +
		"Questions are sorted by how much they changed: " + replay.ChangeMeasure + ".\n\n" +
		"Of requests whose bodies are not recorded only the user's messages are known. Where something else may have changed what was added, they are not compared, and counted by the reason.\n\n" +
		"In the file of --export a person writes yes into the column confirmed of each row that is right; eval asks only those. Questions that depend on earlier messages are left out, and counted."
}

// mostReplayed limits the changed questions of a page.
const mostReplayed = 100

// Run replays the records, or exports them.
func (c *replayCmd) Run(a *app) error {
	limit, err := c.check()
	if err != nil {
		return usageError{err}
	}
	cfg, err := configFlags{Config: c.Config, Flags: config.Flags{State: c.State}}.load(a, !c.WithUpstream)
	if err != nil {
		return err
	}
	if err := c.checkNames(cfg); err != nil {
		return usageError{err}
	}
	records, err := c.open(cfg)
	if err != nil {
		return err
	}
	chosen := replay.Selection{Query: record.Query{Policy: c.From, Tenant: c.Tenant}, Last: c.Limit}
	if chosen.Since, err = sinceOf(c.Since, time.Now()); err != nil {
		return usageError{err}
	}
	show, stop := newProgress(a)
	defer stop()
	if c.Export != "" {
		return c.export(a, cfg, records, chosen.Query, show)
	}
	report, err := c.replay(a, cfg, &replay.Run{
		Replayer: &replay.Replayer{Policy: c.Policy, Model: c.Model, Helpers: c.Helpers}, Store: records, Select: chosen, Keep: c.keep(), Panicked: a.panicked,
		Progress: func(done, total int) {
			show.Show(terminal.Work{Name: "replaying", Done: done, Total: total, Unit: "questions"})
		},
	}, limit)
	if report == nil {
		return c.emptyError(cfg, err)
	}
	show.Clear()
	return errors.Join(undone(errors.Join(err, a.unread(records))), c.print(a, report))
}

// unread tells of damaged records, and returns an error that says which could not be read for want of
// a key; nil if none.
func (a *app) unread(records *record.Reader) error {
	if n := records.Damaged(); n > 0 {
		fmt.Fprintf(a.stderr, "records: %s skipped\n", terminal.Plural(n, "damaged part"))
	}
	if lines := records.Unread(); len(lines) > 0 {
		return errors.New(strings.Join(lines, "; "))
	}
	return nil
}

// open opens the records that the policies of a configuration keep.
func (c *replayCmd) open(cfg *config.Config) (*record.Reader, error) {
	keys := config.RecordKeys(cfg)
	records, err := record.Open(cfg.RecordsFolder(), keys)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return records, err
	case len(keys) == 0:
		return nil, usageError{fmt.Errorf("nothing is recorded in %s, and no policy records; write policies.NAME.record into --config, as in record: {share: 10%%, key: {file: records.key}}", cfg.State.Path)}
	}
	return nil, c.emptyError(cfg, replay.ErrEmpty)
}

// check refuses combinations of flags that make no sense, and returns the budget.
func (c *replayCmd) check() (limit budget.PicoDollars, err error) {
	switch {
	case c.Limit < 0:
		return 0, fmt.Errorf("--limit takes a number of questions, not %d", c.Limit)
	case c.WithUpstream && c.Budget == "":
		return 0, errors.New("--with-upstream costs money; say how much it may by --budget, as in --budget 2.50")
	case !c.WithUpstream && c.Budget != "":
		return 0, errors.New("--budget goes with --with-upstream")
	case c.Export != "" && (c.Policy != "" || c.Model != "" || c.WithUpstream || c.Helpers || c.Page != "" || c.Limit > 0):
		return 0, errors.New("--export replays nothing; --policy, --model, --limit, --helpers, --with-upstream and --page do not go with it")
	case c.Budget == "":
		return 0, nil
	}
	if limit, err = budget.ParseUSD(c.Budget); err == nil && limit == 0 {
		err = errors.New("0 allows no answer")
	}
	if err != nil {
		return 0, fmt.Errorf("--budget: %w", err)
	}
	return limit, nil
}

// checkNames refuses policies that do not exist.
func (c *replayCmd) checkNames(cfg *config.Config) error {
	names := server.Policies{Config: cfg}.Names()
	if c.Policy != "" && !slices.Contains(names, c.Policy) {
		return fmt.Errorf("--policy: no policy is named %q; there are %s", c.Policy, strings.Join(names, ", "))
	}
	return nil
}

// keep returns how many changed questions are kept.
func (c *replayCmd) keep() int {
	switch {
	case c.Full:
		return replay.KeepAll
	case c.Page != "":
		return mostReplayed
	}
	return mostChanged
}

// emptyError says why nothing was replayed.
func (c *replayCmd) emptyError(cfg *config.Config, err error) error {
	if !errors.Is(err, replay.ErrEmpty) {
		return err
	}
	if c.From != "" && config.RecordKeys(cfg)[c.From] == nil {
		return fmt.Errorf("--from: policy %s does not record; its key policies.%s.record turns that on", c.From, c.From)
	}
	var by []string
	for _, f := range []struct{ name, value string }{{"--from", c.From}, {"--tenant", c.Tenant}, {"--since", c.Since}} {
		if f.value != "" {
			by = append(by, f.name+" "+f.value)
		}
	}
	if len(by) == 0 {
		return fmt.Errorf("no question is recorded in %s yet", cfg.RecordsFolder())
	}
	return fmt.Errorf("no question is recorded in %s for %s", cfg.RecordsFolder(), strings.Join(by, " "))
}

// replay wires the engine and replays the records.
func (c *replayCmd) replay(a *app, cfg *config.Config, run *replay.Run, limit budget.PicoDollars) (*replay.Report, error) {
	e, err := sourceFlags{}.open(a, false, cfg, nil, server.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = e.Close() }()
	_, _, request := server.Uncached(e)
	r := run.Replayer
	r.Runner = explain.DryRunner{Rewriter: &rewrite.Rewriter{Retriever: request, Models: e.Rewriter.Models}, Planners: e.Planners}
	if _, known := tokens.Lookup(cfg.ModelTable(), c.Model); c.Model != "" && !known {
		fmt.Fprintf(a.stderr, "--model: no row of the model table is for %s, so its tokens are estimated\n", terminal.Clean(c.Model))
	}
	policies := &replayedPolicies{app: a, cfg: cfg, engine: e, found: map[[2]string]resolvedPolicy{}}
	r.Resolve, r.Redact = policies.resolve, redactors(cfg)
	if c.WithUpstream {
		key, _ := a.env(client.KeyEnv)
		r.Ask = replay.NewAsker(config.ProxyUpstreams(cfg), strings.TrimSpace(key), limit)
		defer r.Ask.Close()
	}
	return run.Do(a.ctx)
}

// redactors returns the function that redacts the texts of a policy's records.
func redactors(cfg *config.Config) func(policy string) func(string) string {
	settings := config.Records(cfg)
	return func(policy string) func(string) string {
		of := settings[policy].Redact
		return of.Text
	}
}

// print writes the report, and the page.
func (c *replayCmd) print(a *app, report *replay.Report) error {
	if c.Page != "" {
		if err := writeOver(c.Page, func(f *os.File) error { return replay.WritePage(f, report) }); err != nil {
			return err
		}
	}
	if c.JSON {
		return printJSON(a.stdout, report)
	}
	shown := *report
	if !c.Full && len(shown.Changed) > mostChanged {
		shown.More += len(shown.Changed) - mostChanged
		shown.Changed = shown.Changed[:mostChanged]
	}
	shown.Print(a.stdout)
	return nil
}

// export writes the questions with their cited documents.
func (c *replayCmd) export(a *app, cfg *config.Config, records *record.Reader, q record.Query, show *terminal.Progress) error {
	list, e, err := replay.Candidates(a.ctx, records, q, func(done int) {
		show.Show(terminal.Work{Name: "reading records", Done: done, Unit: "records"})
	})
	if err != nil {
		return c.emptyError(cfg, err)
	}
	show.Clear()
	e.File = c.Export
	if err := writeNew(c.Export, func(f *os.File) error { return eval.WriteCandidates(f, list) }); err != nil {
		return err
	}
	unread := a.unread(records)
	if c.JSON {
		return errors.Join(undone(unread), printJSON(a.stdout, e))
	}
	e.Print(a.stdout)
	return undone(unread)
}

// writeOver writes a file that only its owner may read.
func writeOver(path string, write func(*os.File) error) error {
	return writeTo(path, os.O_TRUNC, write)
}

// writeNew is writeOver for a file that must not exist: a person may have worked on it.
func writeNew(path string, write func(*os.File) error) error {
	return writeTo(path, os.O_EXCL, write)
}

func writeTo(path string, flag int, write func(*os.File) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		_ = f.Chmod(0o600) // of a file that was there; it may be another user's
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
