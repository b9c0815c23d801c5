package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/server"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
)

// A remove command that removed nothing prints nothing.
func TestRemoveOfNothing(t *testing.T) {
	t.Parallel()
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

// Documents cannot be added to a base that is read from a folder, with or without a running serve.
func TestPutIntoAFoldersBase(t *testing.T) {
	t.Parallel()
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

// cutShort leaves a state folder like a process that ends while it reads a folder.
func cutShort(t *testing.T, state, id, docs string) {
	t.Helper()
	l, err := server.OpenLibrary(t.Context(), state, library.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = l.Sync(ctx, folder.Folder{ID: id, Path: docs}, func(p folder.Progress) {
		if p.Done > 256 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("read to the end: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// A base whose folder was not read completely is shown as such everywhere until it is.
func TestReadInPart(t *testing.T) {
	t.Parallel()
	docs, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	for i := range 300 {
		write(t, docs, fmt.Sprintf("f%03d.md", i), fmt.Sprintf("# Llama %d\n\nLlamas are welcome on Fridays.\n", i))
	}
	write(t, docs, "f007.md", "# Zebras\n\nZebras graze.\n")
	cutShort(t, state, "kb", docs)
	const part = "its folder was not read to its end"
	start(t, noEnv, "knowledge", "list", "--state", state).ends(t, exitDone, "kb                    partial    256 documents, 256 chunks  "+docs+"  ("+part+")\n", "")
	start(t, noEnv, "knowledge", "show", "kb", "--state", state).ends(t, exitDone, "status      partial: "+part+"\n", "")
	search := []string{"search", "zebras", "--knowledge", "kb", "--state", state}
	start(t, noEnv, search...).ends(t, exitDone, "1. f007.md#0", "knowledge kb: "+part)

	upstream := newRecorder(t).URL
	follower := serve(t, "--upstream", upstream, "--knowledge", "kb", "--state", state, "--follow")
	if said := follower.readyz(t, "knowledge kb: "+part); !strings.Contains(said, `"status":"degraded"`) {
		t.Errorf("readyz: %s", said)
	}
	follower.asks(t, "GET", "/v1/knowledge/kb", "", 200, `"status":"partial"`, `"reason":"`+part+`"`)
	follower.asks(t, "POST", "/v1/search", `{"query":"zebras"}`, 200, `"partial":true`, `"reason":"indexing"`)

	writer := serve(t, "--upstream", upstream, "--knowledge", "kb="+docs, "--state", state)
	writer.readyz(t, `{"status":"ready"}`)
	follower.readyz(t, `{"status":"ready"}`)
	follower.asks(t, "POST", "/v1/search", `{"query":"zebras"}`, 200, `"partial":false`)
	writer.stop()
	start(t, noEnv, "knowledge", "list", "--state", state).ends(t, exitDone, "kb                    ready      300 documents, 300 chunks  "+docs+"\n", "")
}
