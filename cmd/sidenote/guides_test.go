package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// grammar returns the grammar of the command line.
func grammar(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("sidenote"), kong.NoDefaultHelp())
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

// eachCommand calls do with each command, the names on the way to it, and its own flags.
func eachCommand(n *kong.Node, path []string, do func(path []string, n *kong.Node)) {
	do(path, n)
	for _, child := range n.Children {
		eachCommand(child, append(slices.Clone(path), child.Name), do)
	}
}

// Each command has a man page with all of its flags, and the page above it names it. Pages hold
// only requests that man(7) has.
func TestManPagesAreComplete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	done(t, "man", dir)
	page := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
		}
		return strings.ReplaceAll(string(text), `\-`, "-")
	}
	request := regexp.MustCompile(`(?m)^(\.(TH|SH|PP|TP|B|I|br|BR)\b|[^.']|$)`)
	commands := 0
	eachCommand(grammar(t).Node, []string{"sidenote"}, func(path []string, n *kong.Node) {
		commands++
		name := strings.Join(path, "-")
		text := page(name)
		if !strings.Contains(strings.ReplaceAll(text, "\n", " \n"), "\n.SH SYNOPSIS \n.B "+strings.Join(path, " ")+" ") {
			t.Errorf("%s.1 does not begin its synopsis with the command", name)
		}
		for _, f := range n.Flags {
			if !strings.Contains(text, "--"+f.Name) {
				t.Errorf("%s.1 lacks --%s", name, f.Name)
			}
		}
		if above := strings.Join(path[:len(path)-1], "-"); above != "" && !strings.Contains(page(above), "\n.BR "+name+" (1)\n") {
			t.Errorf("%s.1 does not name %s", above, name)
		}
		for i, line := range strings.Split(text, "\n") {
			if !request.MatchString(line) {
				t.Errorf("%s.1:%d: %s", name, i+1, line)
			}
		}
	})
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != commands || commands < 30 {
		t.Errorf("%d pages for %d commands, %v", len(entries), commands, err)
	}
	if !strings.Contains(done(t, "man"), ".TH SIDENOTE 1") {
		t.Error("without a folder it does not print the program's page")
	}
}

// completes returns what a shell offers for a command line whose last word is not complete.
func completes(t *testing.T, shell, script string, words []string) []string {
	t.Helper()
	var cmd *exec.Cmd
	switch shell {
	case "bash":
		cmd = exec.CommandContext(t.Context(), "bash", append([]string{"--norc", "-c", `eval "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sidenote; printf '%s\n' "${COMPREPLY[@]}"`, "-", script}, words...)...)
	case "fish":
		cmd = exec.CommandContext(t.Context(), "fish", "--no-config", "-c", script+"\ncomplete -C "+"'"+strings.Join(words, " ")+"'")
	case "zsh":
		// Its functions for completion work only at a terminal. These print what they are given.
		const widgets = `_describe() { print -l -- "${(@)${(P)2}%%:*}" }; _files() { print files }; compadd() { shift; print -l -- "$@" }; compdef() { :; }; `
		cmd = exec.CommandContext(t.Context(), "zsh", append([]string{"-f", "-c", widgets + `eval "$1"; shift; words=("$@"); CURRENT=$#; _sidenote`, "-", script}, words...)...)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("%s: %v: %s", shell, err, errs.String())
	}
	var offered []string
	for line := range strings.Lines(string(out)) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t") // fish adds the description
		if word != "" && strings.HasPrefix(word, words[len(words)-1]) {
			offered = append(offered, word)
		}
	}
	return offered
}

// The completions of each shell offer all commands and flags, and the values of what has few.
func TestCompletionsAreComplete(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			_, err := exec.LookPath(shell)
			absent(t, err, "deploy/test.sh installs it")
			script := done(t, "completion", shell)
			var wrong []string
			eachCommand(grammar(t).Node, []string{"sidenote"}, func(path []string, n *kong.Node) {
				if len(n.Children) > 0 {
					subs := completes(t, shell, script, append(slices.Clone(path), ""))
					for _, child := range n.Children {
						if !slices.Contains(subs, child.Name) {
							wrong = append(wrong, strings.Join(path, " ")+" "+child.Name)
						}
					}
				}
				flags := completes(t, shell, script, append(slices.Clone(path), "--"))
				for _, f := range n.Flags {
					if !slices.Contains(flags, "--"+f.Name) {
						wrong = append(wrong, strings.Join(path, " ")+" --"+f.Name)
					}
				}
			})
			if len(wrong) > 0 {
				t.Errorf("not offered: %q", wrong)
			}
			if got := completes(t, shell, script, []string{"sidenote", "completion", "f"}); !slices.Equal(got, []string{"fish"}) {
				t.Errorf("completion f: %q", got)
			}
			if got := completes(t, shell, script, []string{"sidenote", "--nothing", "knowledge", "cre"}); !slices.Equal(got, []string{"create"}) {
				t.Errorf("after an unknown flag: %q", got)
			}
		})
	}
}

// A shell that is not known is an error that names it.
func TestCompletionOfUnknownShell(t *testing.T) {
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"completion", "csh"}, strings.NewReader(""), &out, &errs, noEnv); code != exitUsage || !strings.Contains(errs.String(), `"csh"`) {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

// The configuration of packages is valid, and their unit starts the program by flags that exist.
func TestPackagedFiles(t *testing.T) {
	done(t, "check", "--offline", "--config", "../../deploy/package/sidenote.yaml")
	unit, err := os.ReadFile("../../deploy/package/sidenote.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/sidenote (.*)$`).FindSubmatch(unit)
	if start == nil {
		t.Fatal("the unit starts no sidenote")
	}
	parser, err := kong.New(&cli{}, kong.NoDefaultHelp())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(strings.Fields(string(start[1]))); err != nil {
		t.Error(err)
	}
}
