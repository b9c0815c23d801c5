package main

import (
	"errors"
	"fmt"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
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

// folder returns the path of the state folder.
func (f stateFlags) folder(a *app) (string, error) {
	cfg, err := configFlags{Config: f.Config, Flags: config.Flags{State: f.State}}.load(a, true)
	if err != nil {
		return "", err
	}
	if cfg.State.Path == store.Memory {
		return "", usageError{errors.New("there is no state folder; name one by --state")}
	}
	return cfg.State.Path, nil
}

type backupCmd struct {
	File string `arg:"" help:"To write, a tar file; it holds documents and the admin token."`
	stateFlags
}

// Run writes a backup.
func (c *backupCmd) Run(a *app) error {
	dir, err := c.folder(a)
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
	dir, err := c.folder(a)
	if err != nil {
		return err
	}
	if err := store.Restore(a.ctx, c.File, dir); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "restored %s from %s\n", dir, c.File)
	return nil
}
