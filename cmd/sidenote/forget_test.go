package main

import (
	"bytes"
	"database/sql"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// holds returns the files of a folder with a text, by relative path.
func holds(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(bytes.ToLower(content), []byte(text)) {
			rel, _ := filepath.Rel(dir, path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// answers waits until a request is answered with a status.
func (p *process) answers(t *testing.T, method, path string, status int) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		resp, err := http.DefaultClient.Do(p.request(t, method, path, ""))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == status {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-late:
			t.Fatalf("%s %s: %d", method, path, resp.StatusCode)
		}
	}
}

// No byte of the state folder has a text that was forgotten, not even one of an earlier version: with a
// running serve, which drops the bodies of its requests, and without.
func TestForgottenTextIsNowhere(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(map[bool]string{true: "serve", false: "alone"}[running], func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			state := filepath.Join(dir, "state")
			write(t, dir, "s.yaml", "explain: {bodies: full}\n")
			args := []string{"--config", filepath.Join(dir, "s.yaml"), "--state", state}
			var p *process
			stop := func() {
				if p != nil {
					p.stop()
					p = nil
				}
			}
			begin := func() {
				if running {
					p = serve(t, append([]string{"--upstream", newRecorder(t).URL}, args...)...)
				}
			}
			run := func(want string, command ...string) {
				t.Helper()
				start(t, noEnv, append(append([]string{"knowledge"}, command...), args...)...).ends(t, exitDone, want, "")
			}
			begin()
			write(t, dir, "keep.md", "# Kept\n\nThe zebrafinch sings at dawn.\n")
			write(t, dir, "secret.md", "# Secret\n\nThe quokkaword is "+strings.Repeat("the oldquokka of all ", 900)+"\n")
			run("", "create", "notes")
			run("", "put", "notes", filepath.Join(dir, "keep.md"), filepath.Join(dir, "secret.md"))
			write(t, dir, "secret.md", "# Secret\n\nThe quokkaword is still here.\n")
			run("", "put", "notes", filepath.Join(dir, "secret.md"))
			if running {
				p.asks(t, "GET", "/v1/knowledge/notes/documents/secret.md", "", 200, "quokkaword")
			}
			if len(holds(t, state, "quokka")) == 0 {
				t.Fatal("the text was never there")
			}
			run("secret.md  removed\n", "forget", "notes", "secret.md")
			run("secret.md  was not there any more\n", "forget", "notes", "secret.md")
			if files := holds(t, state, "quokka"); len(files) > 0 {
				t.Errorf("while it runs, %q have the text", files)
			}
			stop()
			if files := holds(t, state, "quokka"); len(files) > 0 {
				t.Errorf("%q have the text", files)
			}
			if len(holds(t, state, "zebrafinch")) == 0 {
				t.Error("the other document is gone")
			}
		})
	}
}

// A document that comes from a file is refused with what to do; once the file is deleted, its text
// leaves the state folder.
func TestForgetOfAFile(t *testing.T) {
	t.Parallel()
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	write(t, docs, "pets.md", "# Pets\n\nThe quokkaword is welcome on Fridays.\n")
	args := []string{"--knowledge", "kb=" + docs, "--state", state}
	p := serve(t, append([]string{"--upstream", newRecorder(t).URL}, args...)...)
	p.comes(t, "quokkaword", "pets.md")
	p.asks(t, "POST", "/v1/knowledge/kb/forget", `{"documents":["pets.md"]}`, 409, "from_file")
	p.asks(t, "POST", "/v1/knowledge/kb/forget", `{}`, 400, "documents lists 0 ids")
	must(t, os.Remove(filepath.Join(docs, "pets.md")))
	p.answers(t, "GET", "/v1/knowledge/kb/documents/pets.md", 404)
	p.asks(t, "POST", "/v1/knowledge/kb/forget", `{"documents":["pets.md"]}`, 200, `"removed":[]`, `"beyond":["backups`)
	if files := holds(t, state, "quokka"); len(files) > 0 {
		t.Errorf("%q have the text", files)
	}
	p.stop()
}

// After a downgrade the database of the newer release is left alone, and folders of documents are read
// into a folder beside it.
func TestDowngradeReadsIntoAFolderOfItsOwn(t *testing.T) {
	t.Parallel()
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	args := []string{"--upstream", newRecorder(t).URL, "--knowledge", "kb=" + docs, "--state", state}
	p := serve(t, args...)
	p.comes(t, "parental leave", "leave.md")
	p.stop()
	database := filepath.Join(state, "knowledge.db")
	db, err := sql.Open("sqlite", database)
	must(t, err)
	_, err = db.Exec("PRAGMA user_version = 99")
	must(t, err, db.Close())
	before, err := os.ReadFile(database)
	must(t, err)
	again := serve(t, args...)
	again.out.until(t, "has schema 99, newer than")
	again.comes(t, "parental leave", "leave.md")
	again.stop()
	after, err := os.ReadFile(database)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the database of the newer release was changed")
	}
	if dirs, err := filepath.Glob(state + "-schema*"); err != nil || len(dirs) != 1 {
		t.Errorf("folders beside it: %q, %v", dirs, err)
	}
}
