package library_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/extract"
	"sidenote/retrieval/knowledge/folder"
	"sidenote/retrieval/knowledge/knowledgetest"
	"sidenote/retrieval/knowledge/library"
)

// A library keeps what Load reads, file by file or record by record, and reports problems each
// time; documents of removed records are removed.
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
	check(0, 0) // nothing changed
	f.write("faq.jsonl", `{"id":"b","text":"second"}`+"\n")
	check(1, 1)
}

// A new version of a reader reads the files of its format again, and no others. Until then the
// base has another generation, also after a restart.
func TestSyncReadsOneFormatAgain(t *testing.T) {
	f := newFolder(t, map[string]string{
		"a.md": "# Ant\n\nAn ant.", "b.txt": "A bee.", "c.html": "<p>A cat.", "tool.go": "package tool\n\nfunc Run() {}\n",
		"script": "#!/bin/sh\necho dog\n", "d.csv": "name,legs\nant,6\n", "e.jsonl": `{"id":"x","text":"An elk."}`,
	})
	dir := t.TempDir()
	l := opened(t, dir, library.Options{})
	f.sync(l)
	before, generation := rows(t, l), l.Base("kb").Content().Generation()

	l.ChangeReader(extract.SourceCode)
	if err := l.Load(t.Context(), nil); err != nil || l.Base("kb").Content().Generation() == generation {
		t.Errorf("the generation is the same with what another reader has cut, %v", err)
	}
	if report := f.sync(l); report.Written != 2 || report.Unchanged != len(before)-2 {
		t.Errorf("%+v; want 2 of %d files read again", report, len(before))
	}
	for id, row := range rows(t, l) {
		if code := id == "tool.go" || id == "script"; code != (row != before[id]) {
			t.Errorf("%s: row %d, before %d", id, row, before[id])
		}
	}
	if got := l.Base("kb").Content().Generation(); got != generation {
		t.Errorf("generation %s of the same documents, before %s", got, generation)
	}
	if report := f.sync(l); report.Written != 0 {
		t.Errorf("read again: %+v", report)
	}
}

// A page in two formats is one document. Whatever happens to the one that is searched, the other
// one is there as soon as it is needed.
func TestSyncTwins(t *testing.T) {
	var page strings.Builder
	for i := range 30 {
		fmt.Fprintf(&page, "Sentence %d of the page says that topic%d is told by the people of team%d to all others. ", i, i, i)
	}
	f := newFolder(t, map[string]string{"page.txt": page.String(), "page.html": "<h1>Page</h1><p>" + page.String(), "other.txt": "An owl."})
	l := opened(t, t.TempDir(), library.Options{})
	check := func(want string) {
		t.Helper()
		report := f.sync(l)
		c, loaded, err := knowledge.Load(t.Context(), folder.Folder{ID: "kb", Path: f.path}, knowledge.Deps{Counter: knowledgetest.FourBytes{}})
		f.must(err)
		var got []string
		for i := range l.Base("kb").Content().Documents() {
			got = append(got, l.Base("kb").Content().DocumentAt(i).ID)
		}
		for _, s := range report.Skipped {
			got = append(got, s.Path+" "+s.Reason)
		}
		if strings.Join(got, "|") != want || cmp.Diff(report.Skipped, loaded.Skipped) != "" || report.Chunks != loaded.Chunks || report.Chunks != c.Chunks() {
			t.Errorf("%q, want %q; %+v", got, want, report)
		}
	}
	check("other.txt|page.html|page.txt same as page.html")
	check("other.txt|page.html|page.txt same as page.html") // nothing is read again
	f.write("page.html", "<h1>Page</h1><p>"+strings.ReplaceAll(page.String(), "Sentence 7", "Sentence 8"))
	check("other.txt|page.html|page.txt")
	f.write("page.html", "<h1>Page</h1><p>"+page.String())
	check("other.txt|page.html|page.txt same as page.html")
	f.must(os.Remove(filepath.Join(f.path, "page.html")))
	check("other.txt|page.txt")
}

// Another process compares no pages again, except one that changed; and what was said about a
// page that changed while no process ran is not used.
func TestTwinVerdictsAreKept(t *testing.T) {
	var page strings.Builder
	for i := range 30 {
		fmt.Fprintf(&page, "Sentence %d of the page says that topic%d is told by the people of team%d to all others. ", i, i, i)
	}
	changed := strings.ReplaceAll(page.String(), "Sentence 7", "Sentence 8")
	f := newFolder(t, map[string]string{"a.txt": page.String(), "a.html": "<p>" + page.String(), "b.txt": page.String(), "b.html": "<p>" + changed, "c.txt": "An owl."})
	dir := t.TempDir()
	check := func(compared int, want string) {
		t.Helper()
		l := opened(t, dir, library.Options{})
		f.sync(l)
		var got []string
		c := l.Base("kb").Content()
		for i := range c.Documents() {
			got = append(got, c.DocumentAt(i).ID)
		}
		if n := l.Compared("kb"); n != compared || strings.Join(got, "|") != want {
			t.Errorf("%d pairs compared, want %d; %q, want %q", n, compared, got, want)
		}
		f.must(l.Close())
	}
	check(2, "a.html|b.html|b.txt|c.txt")
	check(0, "a.html|b.html|b.txt|c.txt")
	f.write("a.html", "<p>"+changed)
	f.write("b.html", "<p>"+page.String())
	check(2, "a.html|a.txt|b.html|c.txt")
	f.must(os.Remove(filepath.Join(f.path, "b.html")))
	check(0, "a.html|a.txt|b.txt|c.txt")
	f.write("b.html", "<p>"+changed)
	check(1, "a.html|a.txt|b.html|b.txt|c.txt")
}

// The time of a file and its copy is read as long as there is a copy.
func TestSyncFileTimes(t *testing.T) {
	f := newFolder(t, map[string]string{"policy.md": "Eight weeks.", "other.md": "An owl."})
	l := opened(t, t.TempDir(), library.Options{})
	at := time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC)
	check := func(written int, want string) {
		t.Helper()
		report := f.sync(l)
		var got []string
		c := l.Base("kb").Content()
		for i := range c.Documents() {
			d := c.DocumentAt(i)
			got = append(got, fmt.Sprint(d.ID, " ", d.Attributes[retrieval.FileTimeAttribute]))
		}
		if strings.Join(got, "|") != want || report.Written != written {
			t.Errorf("%q, %d written; want %q, %d", got, report.Written, want, written)
		}
	}
	f.must(os.Chtimes(filepath.Join(f.path, "policy.md"), at, at))
	check(2, "other.md <nil>|policy.md <nil>")
	f.write("policy (1).md", "Ten weeks.")
	f.must(os.Chtimes(filepath.Join(f.path, "policy (1).md"), at.Add(time.Hour), at.Add(time.Hour)))
	check(2, "other.md <nil>|policy (1).md 2024-05-01T11:00:00Z|policy.md 2024-05-01T10:00:00Z")
	check(0, "other.md <nil>|policy (1).md 2024-05-01T11:00:00Z|policy.md 2024-05-01T10:00:00Z")
	f.must(os.Remove(filepath.Join(f.path, "policy (1).md")))
	check(1, "other.md <nil>|policy.md <nil>")
}
