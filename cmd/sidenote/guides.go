package main

import (
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"sidenote/cmd/sidenote/internal/server"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help shows how completion is used.
func (completionCmd) Help() string {
	return "Prints a script that completes commands and flags.\n\n" +
		"source <(sidenote completion bash)\n\nsidenote completion fish | source"
}

// Run prints the script.
func (c *completionCmd) Run(a *app, ctx *kong.Context) error {
	return writeCompletion(a.stdout, ctx.Model, c.Shell)
}

type manCmd struct {
	Dir string `arg:"" optional:"" help:"Folder to write the pages of all commands to (print that of sidenote)."`
}

// Help shows how man is used.
func (manCmd) Help() string {
	return "sidenote man | man -l -\n\nsidenote man /usr/local/share/man/man1"
}

// Run prints the page of the program, or writes those of all commands.
func (c *manCmd) Run(a *app, ctx *kong.Context) error {
	version, _ := server.Version()
	pages := manPages(ctx.Model, version)
	if c.Dir == "" {
		_, err := a.stdout.Write(pages["sidenote.1"])
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil { //nolint:gosec // pages are for everybody
		return err
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(c.Dir, name), page, 0o644); err != nil { //nolint:gosec // pages are for everybody
			return err
		}
	}
	return nil
}
