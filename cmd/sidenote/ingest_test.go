package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/cmd/sidenote/internal/config"
	"sidenote/retrieval/knowledge/store"
)

func noEnv(string) (string, bool) { return "", false }

// A command is a command that runs beside the test.
type command struct {
	out    bytes.Buffer // not before it has ended
	said   *announced
	cancel context.CancelFunc
	code   chan int
}

// start runs a command beside the test.
func start(t *testing.T, env func(string) (string, bool), args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := &command{said: &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}, cancel: cancel, code: make(chan int, 1)}
	go func() {
		defer close(c.said.ended)
		c.code <- Run(ctx, args, strings.NewReader(""), &c.out, c.said, env)
	}()
	return c
}

// ends waits for the end of a command and checks its exit code and output.
func (c *command) ends(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	got := <-c.code
	<-c.said.ended
	if said := c.said.text.String(); got != code || !strings.Contains(c.out.String(), stdout) || !strings.Contains(said, stderr) {
		t.Errorf("exit code %d, want %d\nstdout %s\nwant   %s\nstderr %s\nwant   %s", got, code, c.out.String(), stdout, said, stderr)
	}
}

// A serve that has the base with the same folder reads it on behalf of ingest.
func TestIngestHandsOver(t *testing.T) {
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	p := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", "kb="+docs, "--state", state)
	write(t, docs, "broken.md", "caf\xe9 \x00\x01")
	address := strings.TrimPrefix(p.admin, "http://")
	args := []string{"ingest", "--knowledge", "kb=" + docs, "--state", state}
	start(t, noEnv, args...).ends(t, exitPart, "kb: 2 files, 2 chunks; 0 new, 0 changed, 2 unchanged, 0 removed", "kb: handed over to the process at "+address+"\n")
	start(t, noEnv, append(args, "--allow-skipped", "--json")...).ends(t, exitDone, `"handed_over_to": "`+address+`"`, "handed over")

	// It does not read another folder or another base.
	for name, path := range map[string]string{"kb": handbook(t), "other": docs} {
		c := start(t, noEnv, "ingest", "--knowledge", name+"="+path, "--state", state)
		want := "it keeps kb with " + docs
		if name == "other" {
			want = `There is no knowledge base "other"`
		}
		c.said.until(t, "which answers at "+address+"; "+want)
		c.cancel()
		c.ends(t, exitFailed, "", "sidenote: stopped while it waited for the state folder; what was read stays in "+state)
	}
}

// Without the token of a serve, ingest waits until it ends.
func TestIngestWantsToken(t *testing.T) {
	docs, dir := handbook(t), t.TempDir()
	write(t, dir, "token", "let-me-in")
	write(t, dir, "sidenote.yaml", "admin: {token: {file: token}}\nstate: {path: state}\nupstream: "+newRecorder(t).URL+"\nknowledge: {kb: "+docs+"}\n")
	state := filepath.Join(dir, "state")
	p := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"))
	args := []string{"ingest", "--knowledge", "kb=" + docs, "--state", state}
	waits := start(t, noEnv, args...)
	waits.said.until(t, "it wants its admin token: set SIDENOTE_ADMIN_TOKEN")
	const report = "kb: 2 files, 2 chunks; 0 new, 0 changed, 2 unchanged"
	start(t, noEnv, append(args, "--admin-token-file", filepath.Join(dir, "token"))...).ends(t, exitDone, report, "handed over")
	start(t, noEnv, "ingest", "--config", filepath.Join(dir, "sidenote.yaml")).ends(t, exitDone, report, "handed over")
	token := func(name string) (string, bool) { return "let-me-in", name == "SIDENOTE_ADMIN_TOKEN" }
	start(t, token, args...).ends(t, exitDone, report, "handed over")
	p.stop()
	waits.ends(t, exitDone, report, "waiting: ")
}

// Ingest waits for a writer without an admin port.
func TestIngestWaits(t *testing.T) {
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	held, err := store.Open(t.Context(), state, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"ingest", "--knowledge", "kb=" + docs, "--state", state}
	first, second := start(t, noEnv, args...), start(t, noEnv, args...)
	for _, c := range []*command{first, second} {
		c.said.until(t, "waiting: state folder "+state+" is being written by process ")
	}
	second.cancel()
	second.ends(t, exitFailed, "", "stopped while it waited for the state folder")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	first.ends(t, exitDone, "kb: 2 files, 2 chunks; 2 new", "it has no admin port")
}

// A writerFunc is called with what is written.
type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) { f(); return len(p), nil }

// An ingest that is stopped keeps what was read, and the next one continues.
func TestIngestStops(t *testing.T) {
	state := t.TempDir()
	args := []string{"ingest", "--state", state}
	for _, name := range []string{"a", "b", "c"} {
		args = append(args, "--knowledge", name+"="+handbook(t))
	}
	cfg, err := config.Load(config.Source{Offline: true, Flags: config.Flags{State: state, Knowledge: []string{args[4], args[6], args[8]}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &ingestion{Config: cfg, Stderr: io.Discard}
	if err := r.Choose(false); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	clock := func() time.Time { now = now.Add(time.Second); return now } // so that each state is shown
	r.Show = &terminal.Progress{Terminal: true, Now: clock, Writer: writerFunc(func() {
		if len(r.Done) > 0 {
			cancel() // while the third is being read
		}
	})}
	stopped := r.Do(ctx)
	if stopped == nil || ctx.Err() == nil {
		t.Fatalf("was not stopped: %v", stopped)
	}
	if said := stopped.Error(); len(r.Done) == 0 || !strings.Contains(said, "; what was read stays in "+state) || !strings.HasSuffix(said, "c)") {
		t.Errorf("%+v: %s", r.Done, said)
	}
	start(t, noEnv, args...).ends(t, exitDone, r.Done[0].ID+": 2 files, 2 chunks; 0 new, 0 changed, 2 unchanged", "")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	var said bytes.Buffer
	if code := Run(cancelled, args, os.Stdin, io.Discard, &said, noEnv); code != exitFailed || !strings.Contains(said.String(), "stopped before") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}
