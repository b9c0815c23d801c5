// Command sidenote is a sidecar proxy for OpenAI-style APIs: apps swap their
// base URL, and their chat requests go upstream with the right sources in them.
package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"sidenote/cmd/sidenote/internal/serving"
	"sidenote/retrieval/knowledge/folder"
)

func main() { os.Exit(mainCode()) }

// mainCode runs the program and returns its exit code, so that deferred calls run before os.Exit.
func mainCode() int {
	if len(os.Args) == 2 && os.Args[1] == folder.ChildArgument {
		if err := folder.ServeChild(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFailed
		}
		return exitDone
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	tune(os.LookupEnv)
	return Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)
}

// tune sets how far the heap may grow before it is collected, unless GOGC is set, and the memory
// limit, from GOMEMLIMIT or the container.
func tune(env func(string) (string, bool)) {
	if _, set := env("GOGC"); !set {
		serving.Pace(nil)
	}
	limitMemory()
}

// goShare is the share of a container's memory that Go may use, in percent. The rest is for memory
// that Go does not count.
const goShare = 90

// limitMemory limits Go to a share of the container's memory unless GOMEMLIMIT is set. Memory is
// then collected, and requests are refused, before the kernel kills the process.
func limitMemory() {
	if debug.SetMemoryLimit(-1) < math.MaxInt64 {
		return
	}
	container, err := memlimit.FromCgroup()
	if err != nil || container > math.MaxInt64/goShare {
		return // no limit, or a number that means none
	}
	debug.SetMemoryLimit(int64(container / 100 * goShare)) //nolint:gosec // it is less than the largest
}
