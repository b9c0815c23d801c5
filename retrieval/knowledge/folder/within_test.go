package folder_test

import (
	"os"
	"path/filepath"
	"testing"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
)

// A folder that must be within another one is not read if it has become a link that leads out of
// it, whatever it was when the configuration was checked.
func TestFolderStaysWithin(t *testing.T) {
	dir := t.TempDir()
	team := filepath.Join(dir, "team")
	for name, text := range map[string]string{"team/docs/deep/a.md": "# Ours\n", "hr/a.md": "# Theirs\n", "hr/deep/a.md": "# Theirs\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path, within string) int {
		c, _, err := knowledge.Load(t.Context(), folder.Folder{ID: "docs", Path: path, Within: within}, deps())
		if err != nil {
			return -1
		}
		return c.Documents()
	}
	paths := []string{filepath.Join(team, "docs"), filepath.Join(team, "docs", "deep"), filepath.Join(team, "docs", "deep", "a.md")}
	for _, path := range paths {
		if n := read(path, team); n != 1 {
			t.Errorf("%s: %d documents of its own", path, n)
		}
	}
	if err := os.Rename(filepath.Join(team, "docs"), filepath.Join(team, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../hr", filepath.Join(team, "docs")); err != nil {
		t.Skip(err)
	}
	for _, path := range paths {
		if n := read(path, team); n != -1 {
			t.Errorf("%s: %d documents of others were read", path, n)
		}
		if n := read(path, ""); n < 1 {
			t.Errorf("%s: %d documents where it may lie anywhere", path, n)
		}
	}
	if n := read(filepath.Join(dir, "hr"), team); n != -1 {
		t.Errorf("%d documents of a folder elsewhere", n)
	}
	t.Chdir(dir)
	if n := read(filepath.Join("team", "old"), team); n != 1 {
		t.Errorf("%d documents by a relative path", n)
	}
}
