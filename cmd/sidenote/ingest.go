package main

import (
	"cmp"
	"errors"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
)

type ingestCmd struct {
	Knowledge       []string `sep:"none" placeholder:"[NAME=]PATH" help:"Folder of documents. Repeat for more; SIDENOTE_KNOWLEDGE separates by commas."`
	Config          string   `placeholder:"FILE" help:"Configuration, YAML: whose folders are read unless --knowledge names some."`
	State           string   `placeholder:"DIR" help:"Where bases are kept ($XDG_STATE_HOME/sidenote)."`
	AdminTokenFile  string   `placeholder:"FILE" help:"Token of the admin port of the process that keeps the bases ($SIDENOTE_ADMIN_TOKEN)."`
	AcceptDeletions bool     `help:"Delete documents even if most files of a folder are missing, as when a volume is not mounted."`
	AllowSkipped    bool     `help:"Exit with 0 even if files could not be read."`
	Plan            bool     `help:"Print what embedding would cost; write and send nothing."`
	JSON            bool     `name:"json" help:"Print the report as JSON, with every file that was removed or skipped."`
	shownFlags
}

// Help shows how ingest is used.
func (ingestCmd) Help() string {
	return "Reads folders into the state folder; files that have not changed are not read again. " +
		"While a serve writes that folder, it does the reading for the bases that it keeps with the same folders; otherwise ingest waits.\n\n" +
		"If all files of a folder are missing, or more than half and at least twenty, its base stays as it was, unless --accept-deletions is given.\n\n" +
		"Chunks of bases that say embed are embedded then, a batch at a time; what is there already, or has been embedded before, is not sent. " +
		"--plan reads the folders and says what there is to send: inputs, tokens, and what they cost by prices.\n\n" +
		"Ends with 0 when all is read, with 3 when files that should have been could not be, as they are damaged, too large, or the system says no, or chunks could not be embedded.\n\n" +
		"sidenote ingest --knowledge handbook=./docs --knowledge ./faq\n\nsidenote ingest --config sidenote.yaml --json"
}

// Run reads the folders.
func (c *ingestCmd) Run(a *app) error {
	cfg, err := configFlags{Config: c.Config, Flags: config.Flags{Knowledge: c.Knowledge, State: c.State, AdminTokenFile: c.AdminTokenFile}}.load(a, true)
	if err != nil {
		return err
	}
	show, stop := newProgress(a)
	defer stop()
	r := &ingestion{Config: cfg, Shown: c.certificate(cfg), Show: show, Stderr: a.stderr, Audit: server.CommandAudit(cfg, a.stderr, userName())}
	defer func() { _ = r.Audit.Close() }() // each line is written at once
	if err := r.Choose(c.AcceptDeletions); err != nil {
		return usageError{err}
	}
	if c.Plan {
		plan, err := r.Plan(a.ctx)
		if errors.Is(err, errNotEmbedded) {
			return usageError{err}
		}
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(a.stdout, plan)
		}
		plan.Print(a.stdout)
		return nil
	}
	err = r.Do(a.ctx)
	if c.JSON {
		err = cmp.Or(err, printJSON(a.stdout, r.Answer()))
	} else {
		r.Print(a.stdout)
	}
	failed, part := r.Failure()
	if err == nil && failed == nil {
		failed, part = r.Unembedded(), true
	}
	if err == nil && failed == nil && !c.AllowSkipped {
		failed, part = r.Incomplete(), true
	}
	if failed != nil && part {
		failed = partError{failed}
	}
	return cmp.Or(err, failed)
}
