package server

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"sidenote/cmd/sidenote/internal/config"
	"sidenote/cmd/sidenote/internal/demo"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
)

// demoStack returns an engine for the demo's documents. The search deadline is long, so that a
// busy machine does not matter.
func demoStack(tb testing.TB) *Engine { return stackOf(tb, demo.Corpus()) }

// stackOf is demoStack with other documents.
func stackOf(tb testing.TB, documents fs.FS) *Engine {
	tb.Helper()
	yaml := fmt.Sprintf("upstream: http://127.0.0.1:9\nknowledge: {demo: %q}\npolicies: {default: {context_tokens: 550, retrieval: {deadline: 10s}}}\n", tb.TempDir())
	path := filepath.Join(tb.TempDir(), "sidenote.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		tb.Fatal(err)
	}
	cfg, err := config.Load(config.Source{Path: path})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := New(tb.Context(), cfg, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	content, _, err := knowledge.FromFS(tb.Context(), documents, folder.Folder{ID: "demo"}, s.Reader.Deps())
	if err != nil {
		tb.Fatal(err)
	}
	s.Bases.made.Load().embedded["demo"].Swap(content)
	return s
}
