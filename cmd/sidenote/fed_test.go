package main

import (
	"path/filepath"
	"testing"
)

// Where nothing was removed, nothing is said to have been.
func TestM23RemoveOfNothing(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	start(t, noEnv, "knowledge", "create", "notes", "--state", state).ends(t, exitDone, "notes", "opened")
	for _, flags := range [][]string{nil, {"--json"}} {
		c := start(t, noEnv, append([]string{"knowledge", "remove", "notes", "nothing.md", "--state", state}, flags...)...)
		c.ends(t, exitFailed, "", `sidenote: Knowledge base "notes" has no document "nothing.md"`)
		if out := c.out.String(); out != "" {
			t.Errorf("%v: printed %q", flags, out)
		}
	}
}

// Documents of a base that a folder feeds are put into the folder, by whomever they
// come: with a serve that keeps it, and without one.
func TestM23PutIntoAFoldersBase(t *testing.T) {
	docs, state := handbook(t), filepath.Join(t.TempDir(), "state")
	note := written(t, "own.md", "# Zebras\n\nZebras graze.\n")
	p := serve(t, "--upstream", newRecorder(t).URL, "--knowledge", "kb="+docs, "--state", state)
	want := `"kb" is read from ` + docs
	p.asks(t, "PUT", "/v1/knowledge/kb/documents/own.md", `{"text":"Zebras graze."}`, 409, `"code":"from_folder"`, `\"kb\" is read from `+docs)
	p.asks(t, "POST", "/v1/knowledge/kb/documents", `{"documents":[{"id":"own.md","text":"Zebras graze."}]}`, 409, `"code":"from_folder"`)
	put := []string{"knowledge", "put", "kb", note, "--state", state}
	start(t, noEnv, put...).ends(t, exitFailed, "", want)
	p.stop()
	start(t, noEnv, put...).ends(t, exitFailed, "", want)
	c := start(t, noEnv, "knowledge", "documents", "kb", "--state", state)
	c.ends(t, exitDone, "leave.md  Leave policy, 1 chunk\ntravel.md  Travel, 1 chunk\n", "")
}
