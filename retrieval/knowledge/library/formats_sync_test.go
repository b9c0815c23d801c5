package library_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
)

// A library keeps what Load reads, file by file or record by record, and tells what
// is wrong each time; records that are gone take their documents with them.
func TestSyncFormats(t *testing.T) {
	f := newFolder(t, map[string]string{
		"faq.jsonl":      `{"id":"a","text":"first","year":2024}` + "\n{broken\n" + `{"id":"x.md","text":"loses"}` + "\n",
		"faq.jsonl#x.md": "wins",
		"tool.py":        "def run():\n    pass\n",
		"tagged.jsonl":   `{"id":"t","text":"Text.","tags":["a"]}`,
	})
	deps := knowledge.Deps{Counter: knowledgetest.FourBytes{}}
	l, err := library.Open(t.Context(), t.TempDir(), deps, library.Options{})
	f.must(err)
	defer func() { f.must(l.Close()) }()
	folder := folder.Folder{ID: "kb", Path: f.path}
	check := func(written, removed int) {
		t.Helper()
		report, err := l.Sync(t.Context(), folder, nil)
		f.must(err)
		c, want, err := knowledge.Load(t.Context(), folder, deps)
		f.must(err)
		if diff := cmp.Diff(want.Skipped, report.Skipped); diff != "" {
			t.Errorf("skipped (-want +got):\n%s", diff)
		}
		if want.Files != report.Files || want.Chunks != report.Chunks || written != report.Written || removed != report.Removed {
			t.Errorf("%+v; want %+v, %d written, %d removed", report, want, written, removed)
		}
		if got := l.Base("kb").Content().Generation(); got != c.Generation() {
			t.Errorf("generation %s, want %s", got, c.Generation())
		}
	}
	check(4, 0)
	check(0, 0) // nothing has changed
	f.write("faq.jsonl", `{"id":"b","text":"second"}`+"\n")
	check(1, 1)
}
