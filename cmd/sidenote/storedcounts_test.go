package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/engine"
	"sidenote/retrieval/knowledge/library"
	"sidenote/rewrite/tokens"
)

// Each command that writes a state folder stores the counts of tokens with the chunks.
func TestTokensAreKept(t *testing.T) {
	docs, text := handbook(t), "# Pets\n\nLlamas are welcome."
	for name, put := range map[string]func(state string){
		"serve": func(state string) {
			serve(t, "--upstream", "http://127.0.0.1:9", "--knowledge", "kb="+docs, "--state", state).stop()
		},
		"ingest": func(state string) { run(t, "", "ingest", "--knowledge", "kb="+docs, "--state", state) },
		"put": func(state string) {
			run(t, "", "knowledge", "create", "kb", "--state", state)
			run(t, text, "knowledge", "put", "kb", "-", "--doc-id", "leave.md", "--state", state)
		},
	} {
		state := filepath.Join(t.TempDir(), "state")
		put(state)
		l, err := engine.OpenLibrary(t.Context(), state, library.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.Document(t.Context(), "kb", "leave.md")
		if err != nil || len(d.Chunks) == 0 {
			t.Fatalf("%s: %d chunks, %v", name, len(d.Chunks), err)
		}
		for _, encoding := range []string{"o200k_base", "cl100k_base"} {
			counter, err := tokens.New().Encoding(encoding)
			if err != nil {
				t.Fatal(err)
			}
			if want, _ := counter.Count(d.Chunks[0].Text); d.Chunks[0].Tokens[encoding] != want {
				t.Errorf("%s: %v tokens, want %d in %s", name, d.Chunks[0].Tokens, want, encoding)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// run runs a command that has to succeed.
func run(t *testing.T, stdin string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	if code := Run(t.Context(), args, strings.NewReader(stdin), &said, &said, func(string) (string, bool) { return "", false }); code != exitDone {
		t.Fatalf("%q ended with %d: %s", args, code, said.String())
	}
}
