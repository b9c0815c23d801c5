package main

import (
	"fmt"
	"runtime"

	"sidenote/cmd/sidenote/internal/server"
)

type versionCmd struct{}

// Run prints the version of this binary.
func (versionCmd) Run(a *app) error {
	version, commit := server.Version()
	_, err := fmt.Fprintf(a.stdout, "sidenote %s\ncommit    %s\ngo        %s\nencodings %s\n", version, commit, runtime.Version(),
		"cl100k_base, o200k_base, p50k_base, r50k_base") // encodings with exact counts
	return err
}
