package folder_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// Ignore files work as defined by gitignore(5).
func TestIgnoreFiles(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ignore map[string]string // ignore files
		files  string            // existing files
		want   string            // those of them that are read
	}{
		{"anywhere", map[string]string{".gitignore": "a.md\n"}, "a.md b.md x/a.md x/y/a.md", "b.md"},
		{"anchored", map[string]string{".gitignore": "/a.md\nx/b.md\n"}, "a.md x/a.md x/b.md y/x/b.md", "x/a.md y/x/b.md"},
		{"folders only", map[string]string{".gitignore": "out.md/\n"}, "out.md x/out.md/a.md", "out.md"},
		{"a folder's name", map[string]string{".gitignore": "out\n"}, "out/a.md x/out/b.md c.md", "c.md"},
		{"back again", map[string]string{".gitignore": "*.md\n!keep.md\n"}, "a.md keep.md x/keep.md", "keep.md x/keep.md"},
		{"the last one decides", map[string]string{".gitignore": "!a.md\na.md\n"}, "a.md b.md", "b.md"},
		{"not out of an ignored folder", map[string]string{".gitignore": "x/\n!x/a.md\n"}, "x/a.md b.md", "b.md"},
		{"out of a folder's content", map[string]string{".gitignore": "x/**\n!x/a.md\n"}, "x/a.md x/b.md", "x/a.md"},
		{"two stars", map[string]string{".gitignore": "x/**/a.md\n**/deep\n"}, "x/a.md x/y/a.md a.md x/deep/b.md", "a.md"},
		{"a star stays in its folder", map[string]string{".gitignore": "x/*.md\n"}, "x/a.md x/y/a.md", "x/y/a.md"},
		{"question mark and classes", map[string]string{".gitignore": "a?.md\n[x-z].md\n[!a-m].txt\n"}, "ab.md a.md y.md b.txt n.txt", "a.md b.txt"},
		{"comments, blanks, escapes", map[string]string{".gitignore": "# a.md\n\n   \nb.md  \n\\#c.md\n\\!d.md\n"}, "a.md b.md #c.md !d.md", "a.md"},
		{"braces are letters", map[string]string{".gitignore": "{a,b}.md\n"}, "a.md b.md {a,b}.md", "a.md b.md"},
		{"no pattern", map[string]string{".gitignore": "[a\n/\n!\n"}, "a.md", "a.md"},
		{"Windows line ends and a mark", map[string]string{".gitignore": "\ufeffa.md\r\n"}, "a.md b.md", "b.md"},
		{"nested", map[string]string{".gitignore": "*.txt\n", "x/.gitignore": "!a.txt\n/b.md\n"}, "a.txt x/a.txt x/b.md x/y/b.md b.md", "b.md x/a.txt x/y/b.md"},
		{"not above itself", map[string]string{"x/.gitignore": "a.md\n"}, "a.md x/a.md", "a.md"},
		{"ours is stronger", map[string]string{".gitignore": "a.md\n", ".sidenoteignore": "!a.md\nb.md\n"}, "a.md b.md", "a.md"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fsys := fstest.MapFS{}
			for name, text := range tc.ignore {
				fsys[name] = &fstest.MapFile{Data: []byte(text)}
			}
			for name := range strings.FieldsSeq(tc.files) {
				fsys[name] = &fstest.MapFile{Data: []byte("x")}
			}
			c, _, err := knowledge.FromFS(t.Context(), fsys, folder.Folder{ID: "x"}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for s := range c.All() {
				got[s.Doc] = true
			}
			want := strings.Fields(tc.want)
			slices.Sort(want)
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
		})
	}
}

// What is fetched from elsewhere is what may be read of it, and the rules for that.
func TestFolderWants(t *testing.T) {
	f := folder.Folder{Include: []string{"docs/**"}, Exclude: []string{"**/old/**"}}
	for file, want := range map[string]bool{
		"docs/a.md": true, "docs/b.pdf": true, "docs/run": true, "docs/film.mp4": false, "docs/a.png": false, "docs/.env": false,
		"docs/old/a.md": false, "a.md": false, ".gitignore": true, "docs/.sidenoteignore": true,
	} {
		if got := f.Wants(file); got != want {
			t.Errorf("%s: %t, want %t", file, got, want)
		}
	}
	if f.OCR = []string{"ocr"}; !f.Wants("docs/a.png") {
		t.Error("a picture is not wanted with OCR")
	}
}
