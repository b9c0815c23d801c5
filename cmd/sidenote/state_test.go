package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write writes a document into a folder.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// finds searches over the admin port, and returns the names of the documents found.
func (p *process) finds(t *testing.T, question string) (docs []string) {
	t.Helper()
	body, _ := json.Marshal(map[string]string{"query": question})
	resp, err := http.DefaultClient.Do(p.request(t, "POST", "/v1/search", string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var found struct {
		Data []struct {
			Doc string `json:"doc_id"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&found); err != nil {
		t.Fatal(err)
	}
	for _, d := range found.Data {
		docs = append(docs, d.Doc)
	}
	return docs
}

// comes searches until a document is found.
func (p *process) comes(t *testing.T, question, doc string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		if docs := p.finds(t, question); len(docs) > 0 && docs[0] == doc {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			t.Fatalf("%q never found %s", question, doc)
		}
	}
}

// Answers come from the current content of a folder: while it changes, after a restart, and in the
// process that follows. Only one process writes.
func TestState(t *testing.T) {
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	upstream := newRecorder(t).URL
	args := []string{"--upstream", upstream, "--knowledge", "kb=" + docs, "--state", state}
	first := serve(t, args...)
	if docs := first.finds(t, "parental leave"); len(docs) != 1 || docs[0] != "leave.md" {
		t.Fatalf("found %v", docs)
	}
	write(t, docs, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	first.out.until(t, "knowledge kb: 1 document new or changed; now 3 files, 3 chunks")
	first.comes(t, "llamas", "pets.md")

	follower := serve(t, "--upstream", upstream, "--knowledge", "kb", "--state", state, "--follow")
	follower.comes(t, "llamas", "pets.md")
	write(t, docs, "pets.md", "# Pets\n\nAlpacas are welcome on Fridays.\n")
	follower.comes(t, "alpacas", "pets.md")
	if docs := follower.finds(t, "llamas"); len(docs) != 0 {
		t.Errorf("the follower still finds %v", docs)
	}
	follower.stop()
	first.stop()

	write(t, docs, "cars.md", "# Cars\n\nCabriolets are to be parked outside.\n")
	if err := os.Remove(filepath.Join(docs, "travel.md")); err != nil {
		t.Fatal(err)
	}
	again := serve(t, args...)
	again.comes(t, "cabriolets", "cars.md")
	if docs := again.finds(t, "booking trains"); len(docs) != 0 {
		t.Errorf("found %v after it was removed", docs)
	}
	again.comes(t, "alpacas", "pets.md")
}

// A state folder that can no longer be written, for example on a full disk, is still searched after
// a restart.
func TestStateWithoutRoom(t *testing.T) {
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + docs, "--state", state}
	serve(t, args...).stop()
	db, err := sql.Open("sqlite", filepath.Join(state, "knowledge.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "CREATE TRIGGER full BEFORE INSERT ON document BEGIN SELECT raise(ABORT, 'no room'); END")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	write(t, docs, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	again := serve(t, args...)
	again.out.until(t, "no room")
	again.comes(t, "parental leave", "leave.md")
}

// A base that a flag names must exist.
func TestStateHolds(t *testing.T) {
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	serve(t, "--upstream", "http://127.0.0.1:9", "--knowledge", "kb="+docs, "--state", state).stop()
	for want, args := range map[string][]string{
		"leave.md#0  Leave policy > Parental leave":                                               {"search", "parental leave", "--knowledge", "kb", "--state", state},
		"holds no base kx; there are kb; for a folder of that name write --knowledge ./kx":        {"search", "parental leave", "--knowledge", "kx", "--state", state},
		"holds no knowledge yet; for a folder of documents write --knowledge ./PATH":              {"search", "parental leave", "--knowledge", "kb", "--state", state + "x"},
		"/state holds no base kx; there are kb; for a folder of that name write --knowledge ./kx": {"serve", "--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", "--admin", "off", "--knowledge", "kx", "--state", state},
		"state.follow: goes with a folder that another process writes; state is in memory":        {"serve", "--upstream", "http://127.0.0.1:9", "--knowledge", "kb", "--follow", "--state", ":memory:"},
	} {
		var said bytes.Buffer
		Run(t.Context(), args, strings.NewReader(""), &said, &said, func(string) (string, bool) { return "", false })
		if !strings.Contains(said.String(), want) {
			t.Errorf("got  %s\nwant %s", said.String(), want)
		}
	}
}

// If its state folder disappears, a process keeps answering, also from changed files; the next one
// starts from scratch.
//
// Row K1 of deploy/CONTRIBUTING.md.
func TestStateLost(t *testing.T) {
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + docs, "--state", state}
	first := serve(t, args...)
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	first.comes(t, "parental leave", "leave.md")
	write(t, docs, "pets.md", "# Pets\n\nLlamas are welcome on Fridays.\n")
	first.comes(t, "llamas", "pets.md")
	resp, err := http.Post(first.data+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"Are llamas welcome?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if status := resp.Header.Get("Sidenote-Status"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(status, "injected;") {
		t.Errorf("%s, %q", resp.Status, status)
	}
	first.stop()
	again := serve(t, args...)
	again.comes(t, "llamas", "pets.md")
}
