package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
)

// A told is what a client got in one answer.
type told struct {
	Text   string     `json:"text"`
	Calls  []toldCall `json:"calls"`
	Finish string     `json:"finish"`
	Tokens int64      `json:"tokens"`
	Cited  []string   `json:"cited"` // titles of annotations
}

type toldCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// toolPlays are answers of models that call only Sidenote's tools, or the app's as well.
var toolPlays = map[string][]string{
	"mixed": mixedAnswers,
	"ours":  {mixedAnswers[0], mixedAnswers[2]},
}

// play runs a dialogue of toolPlays to its end with the SDK for Go.
func (a *caller) play(p *process) (all []told) {
	a.t.Helper()
	for {
		c := a.ask(p)
		one := told{Text: c.Message.Content, Calls: []toldCall{}, Finish: c.FinishReason, Tokens: a.tokens}
		a.messages = append(a.messages, c.Message.ToParam())
		for _, call := range c.Message.ToolCalls {
			one.Calls = append(one.Calls, toldCall{call.Function.Name, call.Function.Arguments})
			a.messages = append(a.messages, openai.ToolMessage("It rains.", call.ID))
		}
		if all = append(all, one); len(one.Calls) == 0 {
			return all
		}
	}
}

// With a model that calls Sidenote's tools, the official SDKs for other languages get what the one
// for Go gets, and their next requests give the upstream the same conversation. deploy/clients.sh
// installs them in the folder CLIENTS.
func TestClients(t *testing.T) {
	clients := otherClients(t, "client")
	for name, answers := range toolPlays {
		for _, habit := range someHabits() {
			bothWays(t, func(t *testing.T, a *caller) {
				d := newDesk(t, habit, "", answers)
				want := a.play(d.replica(""))
				n := len(d.up.Requests())
				for language, command := range clients {
					t.Run(fmt.Sprintf("%s/%s/%s", name, habit.Name, language), func(t *testing.T) {
						theirs := newDesk(t, habit, "", answers)
						got := runClient(t, command, theirs.replica("").data+"/v1", a.stream)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Error(diff)
						}
						if diff := cmp.Diff(d.conversation(n-1), theirs.conversation(n-1)); diff != "" {
							t.Error(diff)
						}
					})
				}
			})
		}
	}
}

// They read the same from answers in stages, whether or not the chain runs to its end.
func TestClientsStaged(t *testing.T) {
	clients := otherClients(t, "client")
	for name, play := range stagedPlays {
		for way, stream := range map[string]bool{"whole": false, "stream": true} {
			want := []told{{Text: play.text, Calls: []toldCall{}, Finish: "stop", Tokens: play.tokens}}
			for language, command := range clients {
				t.Run(name+"/"+way+"/"+language, func(t *testing.T) {
					p, _ := serveStaged(t, play.preset, play.answers...)
					if diff := cmp.Diff(want, runClient(t, command, p.data+"/v1", stream, "text")); diff != "" {
						t.Error(diff)
					}
				})
			}
		}
	}
}

// otherClients are the commands of a program for each of the other languages.
func otherClients(t *testing.T, program string) map[string][]string {
	t.Helper()
	folder := os.Getenv("CLIENTS")
	if folder == "" {
		t.Skip("deploy/clients.sh runs it")
	}
	return map[string][]string{
		"python":     {filepath.Join(folder, "python", "bin", "python"), filepath.Join("testdata", "clients", program+".py")},
		"javascript": {"node", filepath.Join(folder, program+".mjs")},
	}
}

// The script that installs the clients, and the programs that use them, are syntactically valid.
func TestClientsParse(t *testing.T) {
	commands := [][]string{{"bash", "-n", filepath.Join("..", "..", "deploy", "clients.sh")}}
	for _, program := range []string{"client", "responses", "messages"} {
		path := filepath.Join("testdata", "clients", program)
		commands = append(commands,
			[]string{"python3", "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())", path + ".py"},
			[]string{"node", "--check", path + ".mjs"})
	}
	for _, command := range commands {
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Logf("%s is missing", command[0])
			continue
		}
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v: %s", command, err, out)
		}
	}
}

// runClient runs a client and returns what it prints.
func runClient(t *testing.T, command []string, url string, stream bool, more ...string) (all []told) {
	t.Helper()
	way := "whole"
	if stream {
		way = "stream"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, command[0], slices.Concat(command[1:], []string{url, way}, more)...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%v: %s", err, failed.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return all
}
