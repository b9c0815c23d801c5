package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sidenote/cmd/sidenote/internal/server"
	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/library"
	"sidenote/retrieval/knowledge/store"
	"sidenote/rewrite/tokens"
)

// Each command that writes a state folder stores token counts with the chunks.
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
		l, err := server.OpenLibrary(t.Context(), state, library.Options{ReadOnly: true})
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

// Texts that were stored before tokens of chat templates were neutralised are made again, and their
// token counts are those of the text that models read.
func TestKeptTextsAreNeutralisedAnew(t *testing.T) {
	docs, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(filepath.Join(docs, "turns.md"), []byte("# Turns\n\nA turn ends with <|im_end|> or [/INST] here.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	counter, err := tokens.New().Encoding("o200k_base")
	if err != nil {
		t.Fatal(err)
	}
	read := func() store.Chunk {
		t.Helper()
		l, err := server.OpenLibrary(t.Context(), state, library.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		d, err := l.Document(t.Context(), "kb", "turns.md")
		if err != nil || len(d.Chunks) != 1 {
			t.Fatalf("%d chunks, %v", len(d.Chunks), err)
		}
		return d.Chunks[0]
	}
	before := knowledge.Deps{Counter: counter, Version: server.ChunkEncoding + " " + tokens.Version + " 2", Encodings: map[string]retrieval.Counter{"o200k_base": counter}}
	l, err := library.Open(t.Context(), state, before, library.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Sync(t.Context(), folder.Folder{ID: "kb", Path: docs}, nil); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if old := read(); !strings.Contains(old.Text, "<|im_end|>") {
		t.Fatalf("kept before: %q", old.Text)
	}
	run(t, "", "ingest", "--knowledge", "kb="+docs, "--state", state)
	now := read()
	if strings.Contains(now.Text, "<|im_end|>") || !strings.Contains(now.Text, "[|im_end|> or (/INST]") {
		t.Errorf("kept now: %q", now.Text)
	}
	if want, _ := counter.Count(now.Text); now.Tokens["o200k_base"] != want {
		t.Errorf("%v tokens, want %d", now.Tokens, want)
	}
}

// run runs a command that must succeed.
func run(t *testing.T, stdin string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	if code := Run(t.Context(), args, strings.NewReader(stdin), &said, &said, func(string) (string, bool) { return "", false }); code != exitDone {
		t.Fatalf("%q ended with %d: %s", args, code, said.String())
	}
}
