// Command sidenote is a sidecar proxy for OpenAI-style APIs: apps swap their
// base URL, and their chat requests go upstream with the right sources in them.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/retrieval/knowledge/extract/child"
)

func main() { os.Exit(mainCode()) }

// mainCode exists so that deferred calls run before the process ends.
func mainCode() int {
	if len(os.Args) > 1 && os.Args[1] == engine.ChildCommand {
		return child.Main(os.Args[2:], os.Stdin, os.Stdout)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, whatever it waits for
	tune(os.LookupEnv)
	return Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)
}

// tune lets the heap grow to four times its live part. That is some tens of MiB, mostly
// vocabularies, and collecting at every doubling would cost requests more than the memory
// is worth. GOGC wins where it is set; the memory limit, GOMEMLIMIT or the container's,
// always holds.
func tune(env func(string) (string, bool)) {
	if _, set := env("GOGC"); !set {
		debug.SetGCPercent(300)
	}
	limitMemory()
}
