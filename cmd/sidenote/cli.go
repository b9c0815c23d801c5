package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/strictyaml"
	"sidenote/proxy/panics"
	"sidenote/proxy/report"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong usage or configuration
	exitPart   = 3 // partly done
)

// An app holds the environment that a command runs in.
type app struct {
	ctx            context.Context // ends when the process is asked to stop
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(name string) (string, bool)
	reports        report.Recorder // records each request that serve answers; nil for none

	redisShown bool // --redis was given on the command line rather than in the environment
}

// panicked is the panics.Handler of the servers that some commands start.
func (a *app) panicked(value any, stack []byte) {
	fmt.Fprintf(a.stderr, "BUG: panic: %s\n%s", panics.Describe(value), stack)
}

type cli struct {
	Serve      serveCmd      `cmd:"" help:"Relay requests and add sources to chats."`
	Demo       demoCmd       `cmd:"" help:"Try everything on this machine, without key or network."`
	Ask        askCmd        `cmd:"" help:"Ask a question and stream the answer."`
	Ingest     ingestCmd     `cmd:"" help:"Read folders of documents into the state folder."`
	Knowledge  knowledgeCmd  `cmd:"" help:"List, create, fill and delete knowledge bases."`
	State      stateCmd      `cmd:"" help:"Back up the state folder, and restore it."`
	Search     searchCmd     `cmd:"" help:"Search knowledge bases as a request would."`
	Tool       toolCmd       `cmd:"" help:"Run a tool that models have, such as recall."`
	MCP        mcpCmd        `cmd:"" name:"mcp" help:"Serve these tools to a client of the Model Context Protocol, on stdin and stdout."`
	Explain    explainCmd    `cmd:"" help:"Show what a recent request was given, and why."`
	Report     reportCmd     `cmd:"" help:"Summarize a request log."`
	Rewrite    rewriteCmd    `cmd:"" help:"Dry run: print what a request would become."`
	Context    contextCmd    `cmd:"" help:"Build messages from an agent's typed chunks."`
	Eval       evalCmd       `cmd:"" help:"Measure how well questions with known answers are answered."`
	Check      checkCmd      `cmd:"" help:"Check a configuration, or print a tenant's policy."`
	Mode       modeCmd       `cmd:"" help:"Lower the mode of all tenants or one, for example to off: the kill switch."`
	Reload     reloadCmd     `cmd:"" help:"Reload the configuration of a running instance."`
	Usage      usageCmd      `cmd:"" help:"Show what tenants used of their limits, and what is left."`
	Experiment experimentCmd `cmd:"" help:"Show the outcomes of experiments with policies."`
	Replay     replayCmd     `cmd:"" help:"Ask recorded questions again under another policy, and show what changes."`
	Gaps       gapsCmd       `cmd:"" help:"Show what the knowledge bases lack in recorded questions."`
	Key        keyCmd        `cmd:"" help:"Create, hash and list keys of tenants."`
	Health     healthCmd     `cmd:"" help:"Check the health of a running instance."`
	Stub       stubCmd       `cmd:"" help:"Run a fake upstream for testing."`
	Stages     stagesCmd     `cmd:"" help:"List and print the presets of answers in stages."`
	Models     modelsCmd     `cmd:"" help:"Show how tokens of models are counted."`
	Version    versionCmd    `cmd:"" help:"Show version, commit and encodings."`

	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
	Man        manCmd        `cmd:"" help:"Print or write the man pages."`

	Help        helpFlag    `short:"h" help:"Show help."`
	ShowVersion versionFlag `name:"version" help:"Show version, commit and encodings."`
}

// errHelp stops parsing after the help or the version was printed.
var errHelp = errors.New("help was shown")

type helpFlag bool

// BeforeReset prints the help of the command before anything is checked.
func (helpFlag) BeforeReset(ctx *kong.Context) error {
	if err := ctx.PrintUsage(false); err != nil {
		return err
	}
	return errHelp
}

type versionFlag bool

// BeforeReset prints the version before anything is checked.
func (versionFlag) BeforeReset(ctx *kong.Context) error {
	if err := (versionCmd{}).Run(&app{stdout: ctx.Stdout}); err != nil {
		return err
	}
	return errHelp
}

// A usageError is a mistake of the user.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// A partError says that a command did only part of its work.
type partError struct{ error }

func (e partError) Unwrap() error { return e.error }

// Run runs the command line args and returns the exit code. It reads the environment only through
// env.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(name string) (string, bool)) int {
	a := &app{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr, env: env}
	err := a.run(args)
	if err == nil || errors.Is(err, errHelp) {
		return exitDone
	}
	fmt.Fprintln(stderr, message(err))
	return exitCode(err)
}

func (a *app) run(args []string) error {
	parser, err := kong.New(&cli{},
		kong.Name("sidenote"),
		kong.Description("A sidecar proxy that puts the right sources into chat requests.\n\n"+
			"Every flag can be given as SIDENOTE_<FLAG> too; a flag wins over the environment, and that over --config."),
		kong.NoDefaultHelp(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.Writers(a.stdout, a.stderr),
		kong.Resolvers(a.environment()),
	)
	if err != nil {
		panic("BUG: grammar of the command line: " + err.Error())
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		if errors.Is(err, errHelp) {
			return err
		}
		return usageError{fmt.Errorf("%w; try sidenote --help", err)}
	}
	a.redisShown = slices.ContainsFunc(command.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Name == "redis" && !p.Resolved
	})
	return command.Run(a)
}

// environment takes flags that are not given from SIDENOTE_<FLAG>.
func (a *app) environment() kong.Resolver {
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if flag.Name == "help" || flag.Name == "version" {
			return nil, nil
		}
		value, ok := a.env("SIDENOTE_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")))
		if !ok || value == "" {
			return nil, nil
		}
		if flag.Name == "knowledge" { // on the command line the flag is repeated, and a comma is part of a name
			var list []any
			for _, part := range kong.SplitEscaped(value, ',') {
				list = append(list, part)
			}
			return list, nil
		}
		return value, nil
	})
}

func exitCode(err error) int {
	_, problems := errors.AsType[strictyaml.Problems](err)
	_, usage := errors.AsType[usageError](err)
	_, part := errors.AsType[partError](err)
	switch {
	case problems, usage:
		return exitUsage
	case part:
		return exitPart
	}
	return exitFailed
}

// message formats an error for people. Configuration problems take one line each, starting with a
// position that editors can open; other errors are one line.
func message(err error) string {
	if _, ok := errors.AsType[strictyaml.Problems](err); ok {
		return err.Error()
	}
	return "sidenote: " + strings.Join(strings.Fields(err.Error()), " ")
}

// configFlags are the flags of every command that loads a configuration.
type configFlags struct {
	Config string `placeholder:"FILE" help:"Configuration, YAML."`
	config.Flags
}

// load reads the configuration. An offline command needs no upstream.
func (f configFlags) load(a *app, offline bool) (*config.Config, error) {
	src := f.source(a)
	src.Offline = offline
	return config.Load(src)
}

// source returns the source of the configuration that the flags choose.
func (f configFlags) source(a *app) config.Source {
	f.RedisShown = a.redisShown
	return config.Source{Path: f.Config, Env: a.env, Flags: f.Flags}
}

// listeners reads only the listen addresses of the configuration, as a health probe has none of
// the secrets.
func (f configFlags) listeners(a *app) (*config.Config, error) {
	return config.Listeners(config.Source{Path: f.Config, Env: a.env, Flags: f.Flags})
}
