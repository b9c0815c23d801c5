// Command sidenote-bench measures the cost of Sidenote compared with a bare relay: CPU of the
// process per request, added latency, memory per open stream.
//
// Relay, Sidenote and upstream are separate processes, so that the kernel accounts for the CPU of
// each; this process generates the load.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"sidenote/cmd/internal/terminal"
)

func main() { os.Exit(mainCode()) }

// mainCode runs the program and returns its exit code, so that deferred calls run before os.Exit.
func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			return playRole(role, os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
		}
	}
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// Exit codes, the same as sidenote's.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// errHelp stops parsing after the help was shown.
var errHelp = errors.New("help was shown")

type helpFlag bool

// BeforeReset shows the help before anything is checked.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelp
}

const description = `What Sidenote costs beside a bare fasthttp relay: CPU per request, added latency, memory per open stream.

Both run in turns, in short rounds of one run, against the same upstream. Shown is the median of the rounds' ratios and, as spread, their quartiles.

  sidenote-bench                      all cases, about a minute and a half
  sidenote-bench --case '20 KB'       some of them: those whose names begin so
  sidenote-bench --before OLD         beside another build: what a change saves
  sidenote-bench --json > bench.json  for machines
  sidenote-bench --stress             20,000 streamed chats too: none may be lost
  sidenote-bench --streams 10000      memory of so many open streams
  sidenote-bench --page               what an open page of the inspector costs requests
  sidenote-bench --growth             a table over body size, messages, sources and connections

Without --sidenote the program is built from the source in the current folder.`

// run runs the command line and returns the exit code. Roles are handled in mainCode.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var b bench
	parser, err := kong.New(&b,
		kong.Name("sidenote-bench"), kong.Description(description), kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100}), kong.Writers(stdout, stderr),
	)
	if err != nil {
		panic("BUG: grammar of the command line: " + err.Error())
	}
	if _, err = parser.Parse(args); err == nil {
		err = b.check()
	}
	switch {
	case errors.Is(err, errHelp):
		return exitDone
	case err != nil:
		fmt.Fprintf(stderr, "sidenote-bench: %v; try sidenote-bench --help\n", err)
		return exitUsage
	}
	if term := os.Getenv("TERM"); terminal.IsTerminal(stderr) && term != "dumb" {
		b.progress = terminal.NewProgress(stderr, term)
	}
	results, err := b.measure(ctx)
	b.progress.Clear()
	if results != nil {
		if writeErr := results.write(stdout, b.JSON); err == nil {
			err = writeErr
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "sidenote-bench: %v\n", err)
		return exitFailed
	}
	return exitDone
}
