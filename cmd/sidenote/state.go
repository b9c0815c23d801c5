package main

import (
	"errors"
	"fmt"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/audit"
	"sidenote/retrieval/knowledge/store"
)

// stateCmd holds the commands for whole state folders.
type stateCmd struct {
	Backup  backupCmd  `cmd:"" help:"Write the state folder to a file, also while it is in use."`
	Restore restoreCmd `cmd:"" help:"Write a backup to an empty state folder."`
}

// stateFlags choose a state folder.
type stateFlags struct {
	Config string `placeholder:"FILE" help:"Configuration, YAML."`
	State  string `placeholder:"DIR" help:"Where bases are kept ($XDG_STATE_HOME/sidenote)."`
}

// folder returns the path of the state folder, and the configuration that names it.
func (f stateFlags) folder(a *app) (string, *config.Config, error) {
	cfg, err := configFlags{Config: f.Config, Flags: config.Flags{State: f.State}}.load(a, true)
	if err != nil {
		return "", nil, err
	}
	if cfg.State.Path == store.Memory {
		return "", nil, usageError{errors.New("there is no state folder; name one by --state")}
	}
	return cfg.State.Path, cfg, nil
}

type backupCmd struct {
	File string `arg:"" help:"To write, a tar file; it holds documents and the admin token."`
	stateFlags
}

// Run writes a backup.
func (c *backupCmd) Run(a *app) error {
	dir, _, err := c.folder(a)
	if err != nil {
		return err
	}
	size, err := store.Backup(a.ctx, dir, c.File)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "backed up %s to %s, %s bytes\n", dir, c.File, terminal.Thousands(int(size)))
	return nil
}

type restoreCmd struct {
	File string `arg:"" help:"That backup wrote."`
	stateFlags
}

// Run restores a backup.
func (c *restoreCmd) Run(a *app) error {
	dir, cfg, err := c.folder(a)
	if err != nil {
		return err
	}
	err = store.Restore(a.ctx, c.File, dir)
	c.audit(a, cfg, dir, err)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "restored %s from %s\n", dir, c.File)
	return nil
}

// audit records that a backup was restored to dir, or failed to be.
func (c *restoreCmd) audit(a *app, cfg *config.Config, dir string, err error) {
	e := audit.Event{Action: audit.Restore, Object: dir, Result: audit.OK}
	if err != nil {
		e.Result, e.Reason = audit.Failed, err.Error()
	}
	events := server.CommandAudit(cfg, a.stderr, userName())
	events.Record(e)
	_ = events.Close() // each line is complete
}
