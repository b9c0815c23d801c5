package main

import (
	"fmt"
	"runtime/debug"
	"strings"
)

type versionCmd struct{}

// Run prints what this binary is.
func (versionCmd) Run(a *app) error {
	version, commit := buildVersion()
	goVersion := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = info.GoVersion
	}
	_, err := fmt.Fprintf(a.stdout, "sidenote %s\ncommit    %s\ngo        %s\nencodings %s\n", version, commit, goVersion,
		strings.Join(encodings(), ", "))
	return err
}

// encodings are those that counts can be exact in.
func encodings() []string { return []string{"cl100k_base", "o200k_base", "p50k_base", "r50k_base"} }

// buildVersion is the module's version and the commit, as the go command
// stamped them.
func buildVersion() (version, commit string) {
	version, commit = "(devel)", "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, commit
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value + strings.TrimPrefix(commit, "unknown")
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += " (modified)"
		}
	}
	return version, commit
}
