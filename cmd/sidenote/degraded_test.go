package main

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// chats asks the data port about parental leave and returns the headers that say what Sidenote did.
func (p *process) chats(t *testing.T) string {
	t.Helper()
	resp, err := http.Post(p.data+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"How many weeks of parental leave?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s, %v", resp.Status, err)
	}
	return resp.Header.Get("Sidenote-Status")
}

// must ends the test if there is an error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// keptState returns a state folder with the bases of folders.
func keptState(t *testing.T, knowledge ...string) (state string) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "state")
	start(t, noEnv, append([]string{"ingest", "--state", state, "--knowledge"}, knowledge...)...).ends(t, exitDone, ": ", "")
	return state
}

// hurt damages the database of a state folder that no process has open.
func hurt(t *testing.T, state, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(state, "knowledge.db"))
	must(t, err)
	_, err = db.ExecContext(t.Context(), statement)
	must(t, err, db.Close())
}

// Whatever is wrong with the state folder at the start, requests are served, the problem is
// reported, and all works again once it is repaired.
func TestStateCannotBeUsed(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(filepath.Join(keptState(t, "kb="+handbook(t)), "knowledge.db"))
	must(t, err)
	overwritten := func(data []byte) func(t *testing.T) (string, func()) {
		return func(t *testing.T) (string, func()) {
			db := written(t, "knowledge.db", string(data))
			return filepath.Dir(db), func() {
				must(t, os.WriteFile(db+".backup", whole, 0o600), os.Rename(db+".backup", db))
			}
		}
	}
	for name, c := range map[string]struct {
		want    string
		prepare func(t *testing.T) (state string, repair func())
	}{
		"a file": {"not a directory", func(t *testing.T) (string, func()) {
			state := written(t, "state", "a file")
			return state, func() { must(t, os.Remove(state)) }
		}},
		"garbage":   {"is damaged", overwritten(slices.Concat(whole[:len(whole)/4], bytes.Repeat([]byte("garbage "), len(whole)/16), whole[len(whole)*3/4:]))},
		"truncated": {"knowledge.db", overwritten(whole[:len(whole)/2])},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, up := handbook(t), newRecorder(t)
			state, repair := c.prepare(t)
			p := serve(t, "--upstream", up.URL, "--knowledge", "kb="+docs, "--state", state)
			if s := p.chats(t); !strings.HasPrefix(s, "untouched; reason=state") || up.count() == 0 {
				t.Errorf("%s", s)
			}
			if said := p.readyz(t, c.want); !strings.Contains(said, `"status":"degraded"`) || !strings.Contains(said, `"state: `) || !strings.Contains(said, "knowledge kb: ") {
				t.Errorf("readyz: %s", said)
			}
			p.out.until(t, c.want)
			p.asks(t, "PUT", "/v1/knowledge/kb/documents/a", `{"text":"x"}`, 403, "There is no admin token to write with")
			p.asks(t, "GET", "/v1/knowledge/kb/documents", "", 503, `"code":"state_unavailable"`)
			p.asks(t, "GET", "/v1/knowledge", "", 200, `"id":"kb"`, `"status":"failed"`)
			repair()
			p.comes(t, "parental leave", "leave.md")
			p.readyz(t, `{"status":"ready"}`)
			if s := p.chats(t); !strings.HasPrefix(s, "injected; sources=1") {
				t.Errorf("%s", s)
			}
			write(t, docs, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
			p.comes(t, "llamas", "pets.md")
		})
	}
}

// Damage in a base that checks do not find is reported when it is read, and the other bases answer.
// All works again when the state folder is moved away, as the message advises.
func TestDamagedBase(t *testing.T) {
	t.Parallel()
	docs := handbook(t)
	names := []string{"row", "gone", "source", "text", "sound"}
	var knowledge []string
	for _, name := range names {
		knowledge = append(knowledge, "--knowledge", name+"="+docs)
	}
	state := keptState(t, knowledge[1:]...)
	base := func(name string) string { return "(SELECT row FROM base WHERE id = '" + name + "')" }
	hurt(t, state, "UPDATE document SET source = 'nothing.md' WHERE source = 'travel.md' AND base = "+base("source"))
	hurt(t, state, "UPDATE chunk SET text = replace(text, '16', '61') WHERE row >> 20 IN (SELECT row FROM document WHERE base = "+base("text")+")")
	hurt(t, state, "DELETE FROM document WHERE id = 'travel.md' AND base = "+base("gone"))
	hurt(t, state, "UPDATE base SET bytes = 7 WHERE id = 'row'")
	p := serve(t, append(knowledge, "--upstream", newRecorder(t).URL, "--state", state)...)
	said := p.readyz(t, `"status":"degraded"`)
	for i, name := range names {
		if named := strings.Contains(said, "knowledge "+name+": "); named != (i < 3) || i == 0 && !strings.Contains(said, "is damaged") {
			t.Errorf("%s: %s", name, said)
		}
		answers := i > 1 // the index file of the third is not damaged
		found := p.asks(t, "POST", "/v1/search", `{"query":"parental leave","knowledge":["`+name+`"]}`, map[bool]int{true: 200, false: 503}[answers])
		if strings.Contains(found, "leave.md") != answers {
			t.Errorf("%s: found %s", name, found)
		}
	}
	p.out.until(t, "is damaged")
	p.asks(t, "GET", "/v1/knowledge/row", "", 200, `"status":"failed"`, "is damaged")
	p.asks(t, "GET", "/v1/knowledge/text/documents/leave.md", "", 500, `"code":"state_damaged"`)
	p.readyz(t, "knowledge text: ")
	p.asks(t, "GET", "/v1/knowledge/text", "", 200, `"status":"failed"`, "is damaged")

	must(t, os.Rename(state, state+".bad"))
	p.readyz(t, `{"status":"ready"}`)
	p.asks(t, "POST", "/v1/search", `{"query":"parental leave","knowledge":["row"]}`, 200, "leave.md")

	// Commands do what is still possible.
	bad := []string{"--state", state + ".bad"}
	start(t, noEnv, append([]string{"knowledge", "list"}, bad...)...).ends(t, exitDone, "sound                 ready", "knowledge row: ")
	start(t, noEnv, append([]string{"search", "parental leave", "--knowledge", "sound"}, bad...)...).ends(t, exitDone, "1. leave.md#0", "")
	start(t, noEnv, append([]string{"search", "parental leave", "--knowledge", "row"}, bad...)...).ends(t, exitFailed, "", "is damaged")
}

// A second process on a state folder follows it at once, says so in one line, and writes it when
// the first has ended. Bases that only the second one configures are not searched until then.
func TestSecondFollows(t *testing.T) {
	t.Parallel()
	docs, other, dir, up := handbook(t), t.TempDir(), t.TempDir(), newRecorder(t).URL
	write(t, other, "cars.md", "# Cars\n\nCabriolets are to be parked outside.\n")
	first := serve(t, "--upstream", up, "--knowledge", "kb="+docs, "--knowledge", "rules="+other, "--state", filepath.Join(dir, "state"))
	write(t, dir, "sidenote.yaml", "upstream: "+up+"\nstate: state\nknowledge: {kb: "+docs+", own: "+other+", rules: {path: "+other+", exclude: [pets.md]}}\n")
	second := serve(t, "--config", filepath.Join(dir, "sidenote.yaml"))
	second.token = first.token // it stands in the state folder
	said := second.out.until(t, "is being written by process")
	if !strings.Contains(said, strings.TrimPrefix(first.admin, "http://")) || !strings.Contains(said, "follows it and takes over") || strings.Count(said, "is being written") != 1 {
		t.Errorf("said %s", said)
	}
	if said := second.readyz(t, `"status":"degraded"`); !strings.Contains(said, "knowledge own: ") || !strings.Contains(said, "knowledge rules: ") || strings.Contains(said, "knowledge kb") {
		t.Errorf("readyz: %s", said)
	}
	if s := second.chats(t); !strings.HasPrefix(s, "injected; ") {
		t.Errorf("%s", s)
	}
	write(t, other, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	first.comes(t, "llamas", "pets.md")
	write(t, docs, "pets.md", "# Pets\n\nZebras are not.\n")
	second.comes(t, "zebras", "pets.md")
	if docs := second.finds(t, "llamas"); len(docs) > 0 {
		t.Errorf("found %v by other rules", docs)
	}
	second.asks(t, "PUT", "/v1/knowledge/kb/documents/x", `{"text":"x"}`, 409, `"code":"read_only"`, strings.TrimPrefix(first.admin, "http://"))
	first.stop()
	second.comes(t, "llamas", "pets.md") // of own
	second.readyz(t, `{"status":"ready"}`)
	second.asks(t, "POST", "/v1/search", `{"query":"cabriolets","knowledge":["rules"]}`, 200, "cars.md")
	write(t, docs, "pets.md", "# Pets\n\nAlpacas are welcome on Fridays.\n")
	second.comes(t, "alpacas", "pets.md")
	second.asks(t, "POST", "/v1/knowledge", `{"id":"notes"}`, 201)
}

// If two processes start at once, one writes and one follows.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + docs, "--state", state}
	both := make(chan *process)
	for range 2 {
		go func() { both <- serve(t, args...) }()
	}
	one, two := <-both, <-both
	for _, p := range []*process{one, two} {
		p.comes(t, "parental leave", "leave.md")
		p.readyz(t, `{"status":"ready"}`)
	}
	one.stop()
	write(t, docs, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	two.comes(t, "llamas", "pets.md")
}

// If the writer is killed, its follower takes over.
func TestWriterIsKilled(t *testing.T) {
	t.Parallel()
	docs, state, up := handbook(t), filepath.Join(t.TempDir(), "state"), newRecorder(t).URL
	address, err := freeAddress()
	must(t, err)
	writer := exec.Command(released(t), "serve", "--upstream", up, "--listen", "127.0.0.1:0", "--admin", address, "--knowledge", "kb="+docs, "--state", state)
	must(t, writer.Start())
	defer func() { _ = writer.Process.Kill(); _ = writer.Wait() }()
	w := &process{admin: "http://" + address}
	for _, err := http.Get(w.admin + "/healthz"); err != nil && t.Context().Err() == nil; {
		_, err = http.Get(w.admin + "/healthz")
	}
	w.comes(t, "parental leave", "leave.md")
	follower := serve(t, "--upstream", up, "--knowledge", "kb="+docs, "--state", state)
	follower.out.until(t, "is being written by process")
	follower.comes(t, "parental leave", "leave.md")
	must(t, writer.Process.Kill())
	_ = writer.Wait()
	write(t, docs, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	follower.comes(t, "llamas", "pets.md")
	if s := follower.chats(t); !strings.HasPrefix(s, "injected; sources=1") {
		t.Errorf("%s", s)
	}
}

// A folder that is missing at the first start is an error. If it was read before, it counts as
// temporarily missing, and its documents are still served.
func TestMissingFolder(t *testing.T) {
	t.Parallel()
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + docs, "--state", state}
	away := docs + ".away"
	must(t, os.Rename(docs, away))
	start(t, noEnv, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "off"}, args...)...).
		ends(t, exitUsage, "", `folder "`+docs+`" not found`)
	must(t, os.Rename(away, docs))
	first := serve(t, args...)
	must(t, os.Rename(docs, away))
	first.readyz(t, "knowledge kb: open folder: ")
	first.comes(t, "parental leave", "leave.md")
	first.stop()
	again := serve(t, args...)
	if said := again.readyz(t, "knowledge kb: open folder: "); !strings.Contains(said, `"status":"degraded"`) {
		t.Errorf("readyz: %s", said)
	}
	again.comes(t, "parental leave", "leave.md")
	write(t, away, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	must(t, os.Rename(away, docs))
	again.comes(t, "llamas", "pets.md")
	again.readyz(t, `{"status":"ready"}`)
}

// A follower that starts first waits for the writer.
func TestFollowerFirst(t *testing.T) {
	t.Parallel()
	docs, state, up := handbook(t), filepath.Join(t.TempDir(), "state"), newRecorder(t).URL
	follower := serve(t, "--upstream", up, "--knowledge", "kb", "--state", state, "--follow")
	follower.readyz(t, "there is nothing to follow yet")
	if s := follower.chats(t); !strings.HasPrefix(s, "untouched; reason=indexing") {
		t.Errorf("%s", s)
	}
	writer := serve(t, "--upstream", up, "--knowledge", "kb="+docs, "--state", state)
	follower.token = writer.token
	follower.comes(t, "parental leave", "leave.md")
	follower.readyz(t, `{"status":"ready"}`)
	writer.stop()
	write(t, docs, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	follower.asks(t, "POST", "/v1/knowledge", `{"id":"x"}`, 409, `"code":"read_only"`) // it never writes
}
