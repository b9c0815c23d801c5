package server

import (
	"os/exec"
	"strings"
	"testing"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/rewrite/tokens"
)

// No chunk exceeds 400 tokens, counted by a model's tokenizer, over a real tree with long tables,
// long code and long lines, with -short a part of that tree.
func TestChunksAreShort(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openai/openai-go/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	counter, err := tokens.New().Encoding(ChunkEncoding)
	if err != nil {
		t.Fatal(err)
	}
	r := &Reader{counter: counter}
	sdk := folder.Folder{ID: "sdk", Path: strings.TrimSpace(string(dir))}
	if testing.Short() {
		sdk.Include = []string{"README.md", "CHANGELOG.md", "api.md", "webhooks/**", "scripts/**"}
	}
	content, _, err := knowledge.Load(t.Context(), sdk, r.Deps())
	if err != nil {
		t.Fatal(err)
	}
	n, over := 0, 0
	for src := range content.All() {
		n++
		if count, _ := counter.Count(src.Text); count > 400 {
			over++
			t.Errorf("%s#%d: %d tokens: %.200q", src.Doc, src.Chunk, count, src.Text)
		}
		if over > 5 {
			break
		}
	}
	if n < 500 {
		t.Errorf("%d chunks: the tree was not read", n)
	}
}
