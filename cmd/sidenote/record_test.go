package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/server"
	"sidenote/proxy/record"
)

const (
	recordKeyOne = "one AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
	recordKeyTwo = "two AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
)

// recordsAll writes a configuration that records every chat, and its key.
func recordsAll(t *testing.T, dir string) (path string) {
	t.Helper()
	write(t, dir, "keys", recordKeyOne)
	write(t, dir, "s.yaml", "policies: {default: {record: {share: 100%, key: {file: keys}}}}\n")
	return filepath.Join(dir, "s.yaml")
}

// recordsIn reads the records that the configuration in a folder has in a state folder.
func recordsIn(t *testing.T, path, state string) (list []*record.Record) {
	t.Helper()
	cfg, err := config.Load(config.Source{Path: path, Offline: true, Flags: config.Flags{State: state}})
	must(t, err)
	r, err := server.OpenRecords(cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(t, err)
	for of, err := range r.All(record.Query{}) {
		must(t, err)
		list = append(list, of)
	}
	return list
}

// wrote waits until n chats are recorded.
func (p *process) wrote(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() string {
		_, text := get(t, p.admin+"/metrics")
		if !strings.Contains(text, fmt.Sprintf(`sidenote_records_total{policy="default",result="written"} %d`, n)) {
			return fmt.Sprintf("%d records are not written", n)
		}
		return ""
	})
}

// A process that is killed loses the records of its last moment only: those that it counted before are
// read, whole, also by a process that runs beside the next one.
func TestKilledProcessKeepsRecords(t *testing.T) {
	t.Parallel()
	dir, docs, up := t.TempDir(), handbook(t), newRecorder(t)
	state, path := filepath.Join(dir, "state"), recordsAll(t, dir)
	port, err := freeAddress()
	must(t, err)
	data, err := freeAddress()
	must(t, err)
	begin := func() (*process, *exec.Cmd) {
		out := &announced{more: make(chan struct{}, 1), ended: make(chan struct{})}
		cmd := exec.Command(released(t), "serve", "--config", path, "--state", state, "--upstream", up.URL, "--knowledge", "kb="+docs, "--listen", data, "--admin", port)
		cmd.Stderr = out
		must(t, cmd.Start())
		p := &process{data: "http://" + data, admin: "http://" + port, out: out}
		p.stop = sync.OnceValue(func() int {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			close(out.ended)
			return exitDone
		})
		t.Cleanup(func() { p.stop() })
		out.until(t, "in this process")
		return p, cmd
	}
	p, _ := begin()
	for range 20 {
		p.chats(t)
	}
	p.wrote(t, 20)
	var asking sync.WaitGroup
	var answered atomic.Int64
	some := make(chan struct{}, 1<<16)
	for range 4 {
		asking.Go(func() {
			for {
				resp, err := http.Post(p.data+"/v1/chat/completions", "application/json", strings.NewReader(leaveQuestion))
				if err != nil {
					return
				}
				_ = resp.Body.Close()
				answered.Add(1)
				some <- struct{}{}
			}
		})
	}
	for range 100 {
		<-some
	}
	p.stop()
	asking.Wait()
	before := recordsIn(t, path, state)
	if n := len(before); n < 20 || int64(n) > 20+answered.Load()+4 {
		t.Errorf("%d records of 20 that were counted and %d more", n, answered.Load())
	}
	for _, of := range before {
		if of.Status != http.StatusOK || of.Question == "" || len(of.Sources) == 0 {
			t.Errorf("%+v", of)
		}
	}
	p, _ = begin()
	p.chats(t)
	p.wrote(t, 1)
	if after := recordsIn(t, path, state); len(after) != len(before)+1 {
		t.Errorf("%d records after %d", len(after), len(before))
	}
}

// Forgetting a document removes the records of requests that were given it, by a running serve and
// without one; without the key it says what was not searched.
func TestForgetReachesRecords(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		dir := t.TempDir()
		state, path := filepath.Join(dir, "state"), recordsAll(t, dir)
		write(t, dir, "leave.md", "# Leave\n\nHow many weeks of parental leave: 16 weeks.\n")
		args := []string{"--config", path, "--state", state}
		run := func(want string, command ...string) {
			t.Helper()
			start(t, noEnv, append(append([]string{"knowledge"}, command...), args...)...).ends(t, exitDone, want, "")
		}
		run("", "create", "notes")
		run("", "put", "notes", filepath.Join(dir, "leave.md"))
		p := serve(t, append([]string{"--upstream", newRecorder(t).URL, "--knowledge", "notes"}, args...)...)
		p.chats(t)
		p.wrote(t, 1)
		if list := recordsIn(t, path, state); len(list) != 1 || len(list[0].Sources) != 1 || list[0].Sources[0].Doc != "leave.md" {
			t.Fatalf("%+v", list)
		}
		if !running {
			p.stop()
			write(t, dir, "keys", recordKeyTwo)
			run("records of policy default that need the key one, which is not in its record.key", "forget", "notes", "leave.md")
			write(t, dir, "keys", recordKeyOne)
		}
		run("and 1 record of requests", "forget", "notes", "leave.md")
		if list := recordsIn(t, path, state); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	}
}

// A reload begins, changes and ends recording.
func TestReloadOfRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state, path := filepath.Join(dir, "state"), recordsAll(t, dir)
	text, err := os.ReadFile(path)
	must(t, err)
	with := string(text)
	write(t, dir, "s.yaml", "policies: {default: {}}\n")
	p := serve(t, "--config", path, "--state", state, "--upstream", newRecorder(t).URL)
	reload := func(text string) {
		t.Helper()
		write(t, dir, "s.yaml", text)
		p.asks(t, "POST", "/v1/reload", "", http.StatusOK)
	}
	p.chats(t)
	reload(with)
	p.chats(t)
	p.wrote(t, 1)
	write(t, dir, "keys", recordKeyTwo+recordKeyOne)
	reload(strings.Replace(with, "share", "bodies: requests, share", 1))
	p.chats(t)
	p.wrote(t, 2)
	reload("policies: {default: {}}\n")
	p.chats(t)
	p.stop()
	write(t, dir, "s.yaml", with)
	if list := recordsIn(t, path, state); len(list) != 2 || list[0].Body != nil || list[1].Body == nil {
		t.Errorf("%d records: %+v", len(list), list)
	}
	if err := os.WriteFile(filepath.Join(dir, "keys"), []byte(recordKeyTwo), 0o600); err != nil {
		t.Fatal(err)
	}
	if list := recordsIn(t, path, state); len(list) != 1 || list[0].Body == nil {
		t.Errorf("by the second key %d records", len(list))
	}
}
